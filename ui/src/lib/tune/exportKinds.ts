// The quantisation types of merged exports.

/**
 * The types that the window offers, out of those in `docs/QUANTS.md`, with bits per weight and the error (root mean
 * square) of normally distributed weights. A test compares them with that page, which is written from the table.
 */
export const exportKinds: { kind: string; bits: number | null; hint: string }[] = [
  { kind: "", bits: null, hint: "Keeps each tensor's type; the adapter is rounded to it." },
  { kind: "F16", bits: 16, hint: "Practically lossless." },
  { kind: "Q8_0", bits: 8.5, hint: "Quantisation error 0.5 %: nearly lossless." },
  { kind: "Q6_K", bits: 6.6, hint: "Quantisation error 2 %: very small loss. Rows not divisible by 256 become Q8_0." },
  { kind: "Q5_K", bits: 5.5, hint: "Quantisation error 3 to 4 %: small loss. Rows not divisible by 256 become Q5_1." },
  { kind: "Q4_K", bits: 4.5, hint: "Quantisation error 7 %: some of the fine-tuning may be lost. Rows not divisible by 256 become Q5_0." },
  { kind: "IQ4_NL", bits: 4.5, hint: "Quantisation error 7 %, less than Q4_0 at the same size, for rows of any length. Some of the fine-tuning may be lost." },
  { kind: "IQ4_XS", bits: 4.25, hint: "With MXFP4 the smallest here. Quantisation error 7 to 8 %: some of the fine-tuning may be lost. Rows not divisible by 256 become IQ4_NL." },
  { kind: "Q4_1", bits: 5, hint: "Quantisation error 8 %: some of the fine-tuning may be lost. Larger than Q4_K and no better, but older programs read it." },
  { kind: "Q4_0", bits: 4.5, hint: "Quantisation error 9 %, more than Q4_K and IQ4_NL at the same size: some of the fine-tuning may be lost. Every program reads it." },
  { kind: "NVFP4", bits: 4.5, hint: "Quantisation error 10 %, and more if the weights' standard deviation is below 0.01; below 0.003 most precision is lost. For programs that need this type. Rows not divisible by 64 become MXFP4." },
  { kind: "MXFP4", bits: 4.25, hint: "Quantisation error 12 %, more than IQ4_XS at the same size: some of the fine-tuning may be lost. For programs that need this type." },
];
