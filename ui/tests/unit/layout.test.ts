import { describe, expect, test } from "vitest";
import { RowLayout } from "../../src/lib/chat/layout";
import { randomSource } from "./random";

describe("rows of unknown height", () => {
  test("have the offset that the heights above add up to, after any change", () => {
    for (let seed = 1; seed <= 20; seed++) {
      const random = randomSource(seed);
      const layout = new RowLayout();
      const measured = new Map<number, number>();
      const estimate = (key: number) => 50 + (key % 7) * 10;
      let keys = Array.from({ length: random(60) }, (_, i) => i);
      const place = () => layout.setRows(keys, (i) => estimate(keys[i] ?? 0));
      place();
      for (let step = 0; step < 60; step++) {
        const operation = random(3);
        if (operation === 0 && keys.length > 0) {
          const key = keys[random(keys.length)] ?? 0;
          const height = 10 + random(400);
          layout.measure(key, height);
          if (Math.abs((measured.get(key) ?? -1) - height) >= 0.5) measured.set(key, height);
        } else if (operation === 1) {
          keys = [
            ...keys.slice(0, random(keys.length + 1)),
            ...Array.from({ length: random(8) }, (_, i) => 1000 * step + i),
          ];
          place();
        }
        const tops = [0];
        for (const key of keys) tops.push((tops.at(-1) ?? 0) + (measured.get(key) ?? estimate(key)));
        const at = random(keys.length + 1);
        expect(layout.offset(at)).toBe(tops[at]);
        expect(layout.total).toBe(tops.at(-1));
        if (keys.length > 0) {
          const y = random(layout.total + 200);
          const expected = Math.min(
            keys.length - 1,
            tops.findLastIndex((top) => top <= y),
          );
          expect(layout.rowAt(y)).toBe(expected);
        }
      }
    }
  });

  test("an empty list has no height", () => {
    const layout = new RowLayout();
    expect([layout.total, layout.rowAt(100), layout.rowAt(-5)]).toEqual([0, 0, 0]);
  });
});
