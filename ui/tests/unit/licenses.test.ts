import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

/** Licenses of packages that may be shipped in the window. */
const ALLOWED = new Set([
  "MIT",
  "Apache-2.0",
  "Apache-2.0 OR MIT",
  "MIT OR Apache-2.0",
  "BSD-2-Clause",
  "BSD-3-Clause",
  "ISC",
  "0BSD",
]);

interface Locked {
  dev?: boolean;
  license?: string;
}

test("packages in the window have licenses that allow it", () => {
  const lock = JSON.parse(readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8")) as {
    packages: Record<string, Locked>;
  };
  const shipped = Object.entries(lock.packages).filter(([path, { dev }]) => path !== "" && !dev);
  expect(shipped.length).toBeGreaterThan(5);
  expect(
    shipped
      .filter(([, { license }]) => !ALLOWED.has(license ?? ""))
      .map(([path, { license }]) => `${path}: ${license}`),
  ).toEqual([]);
});
