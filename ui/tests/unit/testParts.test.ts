import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { parse, Parts } from "../parts";

afterEach(() => vi.unstubAllEnvs());

test("selections of parts are parsed or refused", () => {
  expect(parse("2/4")).toEqual({ selected: [2], of: 4 });
  expect(parse("1,3/4")).toEqual({ selected: [1, 3], of: 4 });
  for (const wrong of ["", "2", "/4", "0/4", "5/4", "1,/4", "1/0", "x/4", "1/4 ", "1/4\n"])
    expect(parse(wrong), wrong).toBe(undefined);
});

test("each case is in exactly one part", () => {
  for (let index = 0; index < 13; index++) {
    const parts = [1, 2, 3, 4].filter((part) => new Parts("test", { selected: [part], of: 4 }).includes(index, "case"));
    expect(parts).toEqual([(index % 4) + 1]);
  }
});

test("the environment selects parts, and without it all cases run", () => {
  vi.stubEnv("HEARTH_CASES", undefined);
  vi.stubEnv("HEARTH_PART_TEST", undefined);
  const run = () => [0, 1, 2, 3, 4].filter((index) => Parts.of("test").includes(index, "case"));
  expect(run()).toEqual([0, 1, 2, 3, 4]);
  vi.stubEnv("HEARTH_PART_TEST", "2,4/4");
  expect(run()).toEqual([1, 3]);
  vi.stubEnv("HEARTH_PART_TEST", "");
  expect(run).toThrow("HEARTH_PART_TEST=: expected parts such as 2,4/4");
});

test("cases are listed as run or left out", () => {
  const folder = mkdtempSync(join(tmpdir(), "hearth-cases-"));
  vi.stubEnv("HEARTH_CASES", join(folder, "new"));
  vi.stubEnv("HEARTH_PART_TEST", "2/2");
  const parts = Parts.of("test");
  for (const index of [0, 1]) parts.includes(index, `case ${index}`);
  expect(readFileSync(join(folder, "new", `test-${process.pid}.txt`), "utf8")).toBe(
    "left 1/2 test case 0\nran 2/2 test case 1\n",
  );
  rmSync(folder, { recursive: true });
});
