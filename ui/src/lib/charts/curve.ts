// What a curve of losses needs to be drawn: ranges, ticks, smoothing, and fewer points than there are steps.

export interface Point {
  step: number;
  value: number;
}

export interface Range {
  low: number;
  high: number;
}

/** Share of the training losses that the range holds; the few above, mostly the first ones, run out at the top. */
const HELD = 0.985;

/** Round numbers from `low` to `high`, about so many. */
export function ticks(low: number, high: number, about: number): number[] {
  if (!(high > low) || about < 1) return [];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  // The nearest of 1, 2, 5 and 10, as ratios go.
  const unit = rough / power;
  const every = (unit < Math.SQRT2 ? 1 : unit < Math.sqrt(10) ? 2 : unit < Math.sqrt(50) ? 5 : 10) * power;
  const first = Math.ceil(low / every - 1e-9);
  const last = Math.floor(high / every + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * every).toPrecision(12)));
}

/** The values that a chart shows: all of the held-out losses, nearly all of the others, and a little room. */
export function lossRange(train: readonly Point[], held: readonly Point[]): Range {
  const losses = train.map((p) => p.value).filter(Number.isFinite).sort((a, b) => a - b);
  const most = losses.slice(0, Math.max(1, Math.ceil(losses.length * HELD)));
  const all = [...most, ...held.map((p) => p.value).filter(Number.isFinite)];
  if (all.length === 0) return { low: 0, high: 1 };
  const low = all.reduce((a, b) => Math.min(a, b));
  const high = all.reduce((a, b) => Math.max(a, b));
  const room = Math.max((high - low) * 0.07, Math.abs(high) * 0.01, 1e-6);
  return { low: Math.max(0, low - room), high: high + room };
}

/** How much a running mean keeps from step to step: the longer the curve, the calmer. */
function calm(length: number): number {
  return Math.min(0.97, Math.max(0.5, 1 - 14 / Math.max(1, length)));
}

/** A running mean that forgets: each value counts for less, by this share, with every step after it. No drift at the start. */
export function smooth(points: readonly Point[], keep = calm(points.length)): Point[] {
  let sum = 0;
  let weight = 0;
  return points.map(({ step, value }) => {
    if (Number.isFinite(value)) {
      sum = sum * keep + value;
      weight = weight * keep + 1;
    }
    return { step, value: weight > 0 ? sum / weight : value };
  });
}

/** At most about `most` points, of each stretch the least and the greatest, so that no spike is lost. */
export function thin(points: readonly Point[], most: number): readonly Point[] {
  if (points.length <= most) return points;
  const stretch = Math.ceil((points.length * 2) / most);
  const kept: Point[] = [];
  for (let from = 0; from < points.length; from += stretch) {
    let least = points[from];
    let greatest = least;
    for (const point of points.slice(from, from + stretch)) {
      if (least === undefined || point.value < least.value) least = point;
      if (greatest === undefined || point.value > greatest.value) greatest = point;
    }
    if (!least || !greatest) continue;
    if (least === greatest) kept.push(least);
    else kept.push(...(least.step < greatest.step ? [least, greatest] : [greatest, least]));
  }
  const last = points.at(-1);
  if (last && kept.at(-1) !== last) kept.push(last);
  return kept;
}

/** Index of the point nearest to a step, of points in order; -1 where there is none. */
export function nearest(points: readonly Point[], step: number): number {
  let low = 0;
  let high = points.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((points[middle]?.step ?? 0) < step) low = middle + 1;
    else high = middle;
  }
  const before = points[low - 1];
  const at = points[low];
  if (!at) return -1;
  return before && step - before.step < at.step - step ? low - 1 : low;
}

/** The outline of a line through the points; a value that is no number breaks it. */
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
