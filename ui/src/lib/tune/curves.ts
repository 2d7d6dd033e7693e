// Converts the points of a run for the charts.

import type { Point } from "../charts/curve";
import type { Rate } from "../charts/rows";
import type { Curve } from "../stores/runs.svelte";

export function trainPoints(curve: Curve | null): Point[] {
  return curve?.points.map(({ step, loss }) => ({ step, value: loss })) ?? [];
}

export function validationPoints(curve: Curve | null): Point[] {
  // The chart skips NaN; the table shows it.
  return curve?.evaluations.map(({ step, loss }) => ({ step, value: loss ?? NaN })) ?? [];
}

export function rates(curve: Curve | null): Rate[] {
  return curve?.points.map(({ step, learningRate }) => ({ step, rate: learningRate })) ?? [];
}

/** The step of the best checkpoint so far. */
export function bestStep(curve: Curve | null): number | null {
  return curve?.evaluations.findLast((evaluation) => evaluation.best)?.step ?? null;
}
