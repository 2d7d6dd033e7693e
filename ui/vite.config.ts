// The build of the page, its development server, and its tests.

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Removes the WOFF and TTF fonts of KaTeX from its CSS, since every web view reads WOFF2. */
const woff2Only: Plugin = {
  name: "woff2-only",
  enforce: "pre",
  transform: (code, id) =>
    /katex[^/]*\.css/.test(id) ? code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\("\w+"\)/g, "") : null,
};

/**
 * Runs the longest test files first, so that both workers are busy to the end. The axe tests take
 * longest, although their files are short.
 */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification) => /axe\.\w+\.test\.ts$/.test(moduleId);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  plugins: [svelte(), woff2Only],
  // The messages, compiled by scripts/messages.mjs.
  resolve: {
    alias: {
      $messages: fileURLToPath(new URL(".messages/messages.js", import.meta.url)),
      "$messages-runtime": fileURLToPath(new URL(".messages/runtime.js", import.meta.url)),
    },
  },
  // Relative paths work under the custom protocol through which the app serves the page.
  base: "./",
  clearScreen: false,
  server: { port: 5173, strictPort: true },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  test: {
    // Tests wait for conditions, not for fixed times: two at once are slower, but do not fail.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    projects: [
      {
        extends: true,
        test: { name: "unit", include: ["tests/unit/**/*.test.ts"], environment: "node", testTimeout: 120_000 },
      },
      {
        extends: true,
        test: {
          name: "browser",
          include: ["tests/browser/**/*.test.ts"],
          environment: "node",
          // `vitest list` opens no page.
          globalSetup: process.argv[2] === "list" ? [] : ["tests/browser/serve.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          expect: { poll: { timeout: 30_000 } },
        },
      },
    ],
  },
});
