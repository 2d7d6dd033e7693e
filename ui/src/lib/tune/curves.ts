// A run's points as charts want them.

import type { Point } from "../charts/curve";
import type { Rate } from "../charts/rows";
import type { Curve } from "../stores/runs.svelte";

export function trainPoints(curve: Curve | null): Point[] {
  return curve?.points.map(({ step, loss }) => ({ step, value: loss })) ?? [];
}

export function heldPoints(curve: Curve | null): Point[] {
  // What is no number has no place in a chart; in its table it is told as such.
  return curve?.evaluations.map(({ step, loss }) => ({ step, value: loss ?? NaN })) ?? [];
}

export function rates(curve: Curve | null): Rate[] {
  return curve?.points.map(({ step, learningRate }) => ({ step, rate: learningRate })) ?? [];
}

/** The step whose adapter is kept as far as is known. */
export function bestStep(curve: Curve | null): number | null {
  return curve?.evaluations.findLast((evaluation) => evaluation.best)?.step ?? null;
}
