// Arithmetic of the loss chart: range, ticks, smoothing, downsampling.

export interface Point {
  step: number;
  value: number;
}

export interface Range {
  low: number;
  high: number;
}

/**
 * Share of the training losses inside the range; the highest ones, mostly the first, are clipped at
 * the top.
 */
const SHOWN_QUANTILE = 0.985;

/** Approximately `about` round numbers from `low` to `high`. */
export function ticks(low: number, high: number, about: number): number[] {
  if (!(high > low) || about < 1) return [];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  // The nearest of 1, 2, 5 and 10 by ratio.
  const unit = rough / power;
  const every = (unit < Math.SQRT2 ? 1 : unit < Math.sqrt(10) ? 2 : unit < Math.sqrt(50) ? 5 : 10) * power;
  const first = Math.ceil(low / every - 1e-9);
  const last = Math.floor(high / every + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * every).toPrecision(12)));
}

/** Approximately `about` ticks from 0 to `last`, at whole steps. */
export function stepTicks(last: number, about: number): number[] {
  return ticks(0, last, Math.min(last, about));
}

/** The range of the chart: all validation losses, nearly all training losses, and a margin. */
export function lossRange(train: readonly Point[], validation: readonly Point[]): Range {
  const losses = train
    .map((p) => p.value)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  const unclipped = losses.slice(0, Math.max(1, Math.ceil(losses.length * SHOWN_QUANTILE)));
  const all = [...unclipped, ...validation.map((p) => p.value).filter(Number.isFinite)];
  if (all.length === 0) return { low: 0, high: 1 };
  const low = all.reduce((a, b) => Math.min(a, b));
  const high = all.reduce((a, b) => Math.max(a, b));
  const margin = Math.max((high - low) * 0.07, Math.abs(high) * 0.01, 1e-6);
  return { low: Math.max(0, low - margin), high: high + margin };
}

/** Decay of the moving average. Longer curves are smoothed more. */
function smoothing(length: number): number {
  return Math.min(0.97, Math.max(0.5, 1 - 14 / Math.max(1, length)));
}

/** Exponential moving average, bias-corrected at the start. Non-finite values are skipped. */
export function smooth(points: readonly Point[], decay = smoothing(points.length)): Point[] {
  let sum = 0;
  let weight = 0;
  return points.map(({ step, value }) => {
    if (Number.isFinite(value)) {
      sum = sum * decay + value;
      weight = weight * decay + 1;
    }
    return { step, value: weight > 0 ? sum / weight : value };
  });
}

/**
 * Downsamples to about `maxPoints` points: the minimum and maximum of each bucket, so that no spike
 * is lost.
 */
export function thin(points: readonly Point[], maxPoints: number): readonly Point[] {
  if (points.length <= maxPoints) return points;
  const bucket = Math.ceil((points.length * 2) / maxPoints);
  const sampled: Point[] = [];
  for (let from = 0; from < points.length; from += bucket) {
    let min = points[from];
    let max = min;
    for (const point of points.slice(from, from + bucket)) {
      if (min === undefined || point.value < min.value) min = point;
      if (max === undefined || point.value > max.value) max = point;
    }
    if (!min || !max) continue;
    if (min === max) sampled.push(min);
    else sampled.push(...(min.step < max.step ? [min, max] : [max, min]));
  }
  const last = points.at(-1);
  if (last && sampled.at(-1) !== last) sampled.push(last);
  return sampled;
}

/**
 * Index of the point nearest to a step; -1 if there are no points. The points are sorted by step.
 */
export function nearest(points: readonly Point[], step: number): number {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle]?.step ?? 0) < step) low = middle + 1;
    else high = middle;
  }
  const previous = points[low - 1];
  const next = points[low];
  if (!next) return -1;
  return previous && step - previous.step < next.step - step ? low - 1 : low;
}

/** SVG path through the points; a non-finite value interrupts it. */
export function line(points: readonly Point[], x: (step: number) => number, y: (value: number) => number): string {
  let path = "";
  let pen = "M";
  for (const { step, value } of points) {
    if (!Number.isFinite(value)) {
      pen = "M";
      continue;
    }
    path += `${pen}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = "L";
  }
  return path;
}
