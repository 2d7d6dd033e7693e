// The built page with the fake host, under the window's content security policy: for browser tests,
// screenshots and the frame measurement. Apart from browser.mjs, since Vite takes half a second to
// load, and each test file loads that.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build, preview } from "vite";
import { EMPTY, RENDERED } from "./browser.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** At least as strict as the desktop window's policy. */
const POLICY =
  "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/** Serves the empty page. @type {import("vite").Plugin} */
const empty = {
  name: "empty-page",
  configurePreviewServer: (server) => {
    server.middlewares.use(`/${EMPTY}`, (_, response) =>
      response.setHeader("Content-Type", "text/html").end("<title>Empty</title>"),
    );
  },
};

/**
 * Makes components say that they are rendered, once in each page, if `HEARTH_RENDERED` is set.
 * @type {import("vite").Plugin}
 */
const marks = {
  name: "marks-components",
  enforce: "post",
  transform: (code, id) => {
    if (process.env.HEARTH_RENDERED === undefined || !id.endsWith(".svelte") || !id.startsWith(join(ROOT, "src")))
      return null;
    const path = relative(ROOT, id).replaceAll("\\", "/");
    const header = /export default function \w+\(\$\$anchor.*?\) \{/.exec(code)?.[0];
    if (header === undefined) throw new Error(`${path}: the compiled component has no function that renders it.`);
    const mark = `if (!$$said) console.debug(${JSON.stringify(RENDERED + path)}); $$said = true;`;
    return { code: `let $$said = false;\n${code.replace(header, () => `${header}\n${mark}`)}`, map: null };
  },
};

/**
 * Builds the page into a temporary folder and serves it.
 * @returns {Promise<{ address: string, close: () => Promise<void> }>}
 */
export async function servePage() {
  const outDir = mkdtempSync(join(tmpdir(), "hearth-ui-"));
  await build({ root: ROOT, logLevel: "warn", plugins: [marks], build: { outDir, emptyOutDir: true } });
  const server = await preview({
    root: ROOT,
    logLevel: "warn",
    build: { outDir },
    plugins: [empty],
    preview: { port: 0, host: "127.0.0.1", headers: { "Content-Security-Policy": POLICY } },
  });
  const address = server.resolvedUrls?.local[0];
  if (!address) throw new Error("The page could not be served.");
  return {
    address,
    close: async () => {
      await server.close();
      rmSync(outDir, { recursive: true, force: true });
    },
  };
}
