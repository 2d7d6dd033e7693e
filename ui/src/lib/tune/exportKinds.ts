// The quantization types of merged exports.

import { m } from "$messages";

/**
 * The types that the window offers, out of those in `docs/QUANTS.md`, with bits per weight and the
 * error (root mean square) of normally distributed weights. A test compares them with that page,
 * which is written from the table.
 */
export const exportKinds: { kind: string; bits: number | null; hint: () => string }[] = [
  { kind: "", bits: null, hint: m.tune_kind_base },
  { kind: "F16", bits: 16, hint: m.tune_kind_f16 },
  { kind: "Q8_0", bits: 8.5, hint: m.tune_kind_q8_0 },
  { kind: "Q6_K", bits: 6.6, hint: m.tune_kind_q6_k },
  { kind: "Q5_K", bits: 5.5, hint: m.tune_kind_q5_k },
  { kind: "Q4_K", bits: 4.5, hint: m.tune_kind_q4_k },
  { kind: "IQ4_NL", bits: 4.5, hint: m.tune_kind_iq4_nl },
  { kind: "IQ4_XS", bits: 4.25, hint: m.tune_kind_iq4_xs },
  { kind: "Q4_1", bits: 5, hint: m.tune_kind_q4_1 },
  { kind: "Q4_0", bits: 4.5, hint: m.tune_kind_q4_0 },
  { kind: "NVFP4", bits: 4.5, hint: m.tune_kind_nvfp4 },
  { kind: "MXFP4", bits: 4.25, hint: m.tune_kind_mxfp4 },
];
