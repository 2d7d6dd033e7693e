// The rows of the loss table: every evaluation, and about `ROWS` steps in between.

import type { Point } from "./curve";

export interface Rate {
  step: number;
  rate: number;
}

export interface Row {
  step: number;
  train: number | null;
  validation: number | null;
  rate: number | null;
}

/** Approximate number of steps in addition to the evaluations. */
const ROWS = 40;

export function tableRows(train: readonly Point[], validation: readonly Point[], rates: readonly Rate[]): Row[] {
  const trained = new Map(train.map((p) => [p.step, p.value]));
  const measured = new Map(validation.map((p) => [p.step, p.value]));
  const rated = new Map(rates.map((r) => [r.step, r.rate]));
  const every = Math.max(1, Math.ceil(train.length / ROWS));
  const steps = new Set([
    ...measured.keys(),
    ...train.filter((_, i) => i % every === 0 || i === train.length - 1).map((p) => p.step),
  ]);
  return [...steps]
    .sort((a, b) => a - b)
    .map((step) => ({
      step,
      train: trained.get(step) ?? null,
      validation: measured.get(step) ?? null,
      rate: rated.get(step) ?? null,
    }));
}
