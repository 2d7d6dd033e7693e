import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

/** The colors of a style sheet: light, dark by choice, dark by the system. */
function themes(file: string): Map<string, string>[] {
  const css = readFileSync(new URL(`../../src/styles/${file}`, import.meta.url), "utf8");
  return [...css.matchAll(/\{([^{}]*--paper[^{}]*)\}/g)].map(
    (match) =>
      new Map([...(match[1] ?? "").matchAll(/--([\w-]+):\s*(#[\da-f]{6})\b/g)].map((m) => [m[1] ?? "", m[2] ?? ""])),
  );
}

const sets = themes("tokens.css");
const high = themes("contrast.css");

/** Relative luminance as WCAG 2 defines it. */
function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = [1, 3, 5].map((i) => {
    const c = Number.parseInt(color.slice(i, i + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [low = 0, high = 0] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

/** Text on its backgrounds (4.5 to 1), and the edges of controls (3 to 1). */
const pairs: [front: string, grounds: string[], minRatio: number][] = [
  ["ink", ["paper", "raised", "sunk", "side", "bubble", "hit", "bad-soft", "warn-soft"], 4.5],
  ["soft", ["paper", "raised", "sunk", "side", "bubble"], 4.5],
  ["ember-ink", ["paper", "raised", "ember-soft", "bubble"], 4.5],
  ["on-ember", ["ember"], 4.5],
  ["good", ["paper", "raised"], 4.5],
  ["bad", ["raised", "bad-soft"], 4.5],
  ["warn", ["raised", "warn-soft"], 4.5],
  ["code-key", ["sunk"], 4.5],
  ["code-string", ["sunk"], 4.5],
  ["code-number", ["sunk"], 4.5],
  ["code-name", ["sunk"], 4.5],
  ["edge", ["paper", "raised"], 3],
  ["ember", ["paper", "raised", "sunk", "side"], 3],
];

test.each([
  ["normal", sets],
  ["high contrast", high],
] as const)("%s: the dark theme is the same by system and by choice", (_, all) => {
  expect(all.length).toBe(3);
  expect(all[2]).toEqual(all[1]);
  expect([...(all[1] ?? [])].length).toBe([...(all[0] ?? [])].length);
});

test("high contrast replaces every color", () => {
  for (const set of [0, 1]) expect([...(high[set]?.keys() ?? [])]).toEqual([...(sets[set]?.keys() ?? [])]);
});

/** Every pair with its minimum contrast, in light and dark. */
const cases = (minRatio: (normal: number) => number) =>
  pairs.flatMap(([front, grounds, normal]) =>
    grounds.flatMap((ground) =>
      [0, 1].map((set) => [["light", "dark"][set], front, ground, minRatio(normal), set] as const),
    ),
  );

test.each(cases((normal) => normal))(
  "%s: %s on %s has a contrast of at least %s to 1",
  (_, front, ground, minRatio, set) => {
    const colors = sets[set];
    expect(contrast(colors?.get(front) ?? "", colors?.get(ground) ?? "")).toBeGreaterThanOrEqual(minRatio);
  },
);

// WCAG AAA for text; edges of controls as AA asks of text.
test.each(cases((normal) => (normal >= 4.5 ? 7 : 4.5)))(
  "high contrast, %s: %s on %s has a contrast of at least %s to 1",
  (_, front, ground, minRatio, set) => {
    const colors = high[set];
    expect(contrast(colors?.get(front) ?? "", colors?.get(ground) ?? "")).toBeGreaterThanOrEqual(minRatio);
  },
);

test.each([0, 1])("the unsmoothed loss is visible beside the smoothed one", (set) => {
  const chart = readFileSync(new URL("../../src/lib/charts/LossChart.svelte", import.meta.url), "utf8");
  const part = Number(/\.raw \{\s*stroke: color-mix\(in srgb, var\(--edge\) (\d+)%/.exec(chart)?.[1]) / 100;
  const [edge = "", raised = ""] = ["edge", "raised"].map((name) => sets[set]?.get(name));
  const channel = (color: string, at: number) => Number.parseInt(color.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => Math.round(channel(edge, at) * part + channel(raised, at) * (1 - part)));
  const raw = `#${mixed.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
  expect(contrast(raw, raised)).toBeGreaterThanOrEqual(1.9);
  expect(contrast(edge, raw)).toBeGreaterThanOrEqual(1.5);
});

test.each([0, 1])("high contrast: borders are visible", (set) => {
  for (const ground of ["paper", "raised", "sunk"])
    expect(contrast(high[set]?.get("line") ?? "", high[set]?.get(ground) ?? "")).toBeGreaterThanOrEqual(4.5);
});
