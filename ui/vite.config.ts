import { svelte } from "@sveltejs/vite-plugin-svelte";
import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Every web view reads WOFF2, so that KaTeX's older formats are left out. */
const woff2Only: Plugin = {
  name: "woff2-only",
  enforce: "pre",
  transform: (code, id) =>
    /katex[^/]*\.css/.test(id) ? code.replace(/,\s*url\([^)]*\.(?:woff|ttf)\)\s*format\("\w+"\)/g, "") : null,
};

/**
 * Runs the longest files first, so that both workers are busy to the end. The files of axe take
 * longest, although their source is short.
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
  // The messages, which scripts/messages.mjs compiles.
  resolve: {
    alias: {
      $messages: fileURLToPath(new URL(".messages/messages.js", import.meta.url)),
      "$messages-runtime": fileURLToPath(new URL(".messages/runtime.js", import.meta.url)),
    },
  },
  // Relative paths: the window serves the page from its own address.
  base: "./",
  clearScreen: false,
  server: { port: 5173, strictPort: true },
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  test: {
    // A test waits for what it needs, never for a time, so that two at once are only slower.
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
          // Listing the tests needs no page.
          globalSetup: process.argv[2] === "list" ? [] : ["tests/browser/serve.ts"],
          testTimeout: 180_000,
          hookTimeout: 180_000,
          expect: { poll: { timeout: 30_000 } },
        },
      },
    ],
  },
});
