// A headless Chromium on the built page over the scripted host, under the content policy the window has: what the
// browser tests, the pictures and the frame measurement share.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { build, preview } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** As strict as the desktop window's policy, or stricter. */
const POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/**
 * Builds the page into a folder of its own and serves it.
 * @returns {Promise<{ address: string, close: () => Promise<void> }>}
 */
export async function servePage() {
  const outDir = mkdtempSync(join(tmpdir(), "hearth-ui-"));
  await build({ root: ROOT, logLevel: "warn", build: { outDir, emptyOutDir: true } });
  const server = await preview({ root: ROOT, logLevel: "warn", build: { outDir }, preview: { port: 0, host: "127.0.0.1", headers: { "Content-Security-Policy": POLICY } } });
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

/** The browser named by CHROME, else the first that is on the path or where its installer puts it. */
function findChromium() {
  const named = process.env.CHROME;
  if (named) return named;
  const places = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
    "C:\\Program Files (x86)\\Microsoft\\Edge\\Application\\msedge.exe",
  ];
  for (const place of places) {
    if (/[/\\]/.test(place)) {
      if (spawnSync(place, ["--version"]).status === 0) return place;
      continue;
    }
    const found = spawnSync(process.platform === "win32" ? "where" : "which", [place], { encoding: "utf8" });
    const path = found.stdout?.split(/\r?\n/)[0];
    if (found.status === 0 && path) return path;
  }
  throw new Error("No Chromium was found. Install Chromium or Chrome, or set CHROME to its executable.");
}

/**
 * A browser with nothing of anyone's in it.
 * @returns {Promise<import("playwright-core").Browser>}
 */
export function startBrowser() {
  return chromium.launch({
    executablePath: findChromium(),
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
}

/**
 * The page on one scene of the scripted host.
 * @param {import("playwright-core").Browser} browser
 * @param {string} address
 * @param {{ scene?: string, scheme?: "light" | "dark", width?: number, height?: number, motion?: "reduce" | "no-preference" }} [options]
 */
export async function openPage(browser, address, options = {}) {
  const { scene = "", scheme = "light", width = 1180, height = 760, motion = "reduce" } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: motion,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  // A page is there in a second, but not where others want the machine.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  await page.goto(scene === "" ? address : `${address}?scene=${scene}`);
  await page.getByTestId("composer").waitFor();
  return { page, errors, close: () => context.close() };
}
