import { describe, expect, test } from "vitest";
import { line, lossRange, nearest, smooth, stepTicks, thin, ticks, type Point } from "../../src/lib/charts/curve";
import { randomSource } from "./random";

test("steps on the axis are whole numbers, each once", () => {
  expect(stepTicks(4, 9)).toEqual([0, 1, 2, 3, 4]);
  for (let last = 1; last <= 300; last++)
    for (let about = 2; about <= 12; about++) {
      const steps = stepTicks(last, about);
      expect(steps).toEqual([...new Set(steps.map(Math.round))]);
      expect(steps[0]).toBe(0);
    }
});

const curve = (...values: number[]): Point[] => values.map((value, i) => ({ step: i + 1, value }));

test.each([
  [0, 1, 5, [0, 0.2, 0.4, 0.6, 0.8, 1]],
  [1.31, 2.38, 5, [1.4, 1.6, 1.8, 2, 2.2]],
  [0, 240, 5, [0, 50, 100, 150, 200]],
  [0, 1, 1, [0, 1]],
  [3, 3, 5, []],
])("round numbers from %s to %s, about %s", (low, high, about, expected) => {
  expect(ticks(low, high, about)).toEqual(expected);
});

describe("the range", () => {
  test("contains every validation loss and all but a few outliers of the training loss", () => {
    const train = curve(900, ...Array.from({ length: 99 }, () => 2));
    const { low, high } = lossRange(train, [
      { step: 1, value: 3 },
      { step: 50, value: 1.5 },
    ]);
    expect(low).toBeLessThan(1.5);
    expect(low).toBeGreaterThan(1);
    expect(high).toBeGreaterThan(3);
    expect(high).toBeLessThan(4);
  });

  test.each([[curve()], [curve(Number.NaN)], [curve(2)], [curve(0, 0)]])("is never empty: %j", (points) => {
    const { low, high } = lossRange(points, []);
    expect(high).toBeGreaterThan(low);
  });
});

test("smoothing starts at the first value, preserves a constant and skips NaN", () => {
  expect(smooth(curve(4))[0]?.value).toBe(4);
  for (const { value } of smooth(curve(2, 2, Number.NaN, 2))) expect(value).toBeCloseTo(2, 12);
  const [, second] = smooth(curve(1, 3), 0.5);
  expect(second?.value).toBeCloseTo((1 * 0.5 + 3) / 1.5, 12);
});

test("downsampling preserves the order, the ends and the spikes", () => {
  const random = randomSource(3);
  for (let round = 0; round < 50; round++) {
    const points = curve(...Array.from({ length: 1 + random(3000) }, () => random(1000)));
    const maxPoints = 20 + random(300);
    const sampled = thin(points, maxPoints);
    expect(sampled.length).toBeLessThanOrEqual(maxPoints + 3);
    expect(sampled.map((p) => p.step)).toEqual([...new Set(sampled.map((p) => p.step))].sort((a, b) => a - b));
    expect(Math.max(...sampled.map((p) => p.value))).toBe(Math.max(...points.map((p) => p.value)));
    expect(Math.min(...sampled.map((p) => p.value))).toBe(Math.min(...points.map((p) => p.value)));
    expect(sampled.at(-1)).toBe(points.at(-1));
  }
});

test("finds the nearest point", () => {
  const points = [5, 10, 20].map((step) => ({ step, value: 0 }));
  expect([0, 7, 8, 14, 16, 99].map((step) => nearest(points, step))).toEqual([0, 0, 1, 1, 2, 2]);
  expect(nearest([], 3)).toBe(-1);
});

test("a line is interrupted at NaN", () => {
  expect(
    line(
      curve(1, Number.NaN, 3, 4),
      (x) => x,
      (y) => y,
    ),
  ).toBe("M1.0 1.0M3.0 3.0L4.0 4.0");
});
