// Records which components the tests of a file render, for scripts/affected.mjs.

import { mkdirSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { afterAll, expect } from "vitest";
import { rendered } from "../../scripts/browser.mjs";

/** Writes what was rendered into the folder that `HEARTH_RENDERED` names. */
export function recordRendered(): void {
  const folder = process.env.HEARTH_RENDERED;
  const file = expect.getState().testPath;
  if (folder === undefined || file === undefined) return;
  afterAll(() => {
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${basename(file, ".test.ts")}.json`), JSON.stringify([...rendered].sort()));
  });
}
