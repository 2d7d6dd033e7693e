import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { exportKinds } from "../../src/lib/tune/exportKinds";

/**
 * The rows of `docs/QUANTS.md`: type, bits per weight, weights per block, and the type of other
 * rows.
 */
const table = new Map(
  readFileSync("../docs/QUANTS.md", "utf8")
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim()))
    .filter((cells) => Number(cells[2]) > 0)
    .map((cells) => [cells[1], { bits: Number(cells[2]), block: Number(cells[3]), otherwise: cells[7] }]),
);

test.each(exportKinds.filter(({ kind }) => kind !== ""))("$kind is as in the table", ({ kind, bits, hint }) => {
  const row = table.get(kind)!;
  expect(bits).toBeCloseTo(row.bits, 1);
  const rule = hint().match(/Rows not divisible by (\d+) become (\w+)\./);
  expect(rule && [Number(rule[1]), rule[2]]).toEqual(row.block > 32 ? [row.block, row.otherwise] : null);
});

test("the types named in hints exist", () => {
  const named = exportKinds.flatMap(({ hint }) => hint().match(/\b(I?Q\d_\w+|\w+FP4)\b/g) ?? []);
  expect(named.filter((kind) => !table.has(kind))).toEqual([]);
});
