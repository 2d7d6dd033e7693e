// The rows of a curve's table: every evaluation, and between them as many steps as a person would read.

import type { Point } from "./curve";

export interface Rate {
  step: number;
  rate: number;
}

export interface Row {
  step: number;
  train: number | null;
  held: number | null;
  rate: number | null;
}

/** Steps in the table beside the evaluations, about. */
const ROWS = 40;

export function tableRows(train: readonly Point[], held: readonly Point[], rates: readonly Rate[]): Row[] {
  const trained = new Map(train.map((p) => [p.step, p.value]));
  const measured = new Map(held.map((p) => [p.step, p.value]));
  const rated = new Map(rates.map((r) => [r.step, r.rate]));
  const every = Math.max(1, Math.ceil(train.length / ROWS));
  const steps = new Set([...measured.keys(), ...train.filter((_, i) => i % every === 0 || i === train.length - 1).map((p) => p.step)]);
  return [...steps].sort((a, b) => a - b).map((step) => ({ step, train: trained.get(step) ?? null, held: measured.get(step) ?? null, rate: rated.get(step) ?? null }));
}
