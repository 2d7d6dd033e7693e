// A headless Chromium on the built page with the fake host, under the window's content security policy: shared by browser
// tests, screenshots and the frame measurement.

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { build, preview } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** At least as strict as the desktop window's policy. */
const POLICY = "default-src 'self'; img-src 'self' data:; style-src 'self'; script-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'";

/**
 * Builds the page into a temporary folder and serves it.
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

/** The browser named by CHROME, else the first one on the path or in its default location. */
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
 * Features of Chromium that are off. The first two start a process for each context, for suggestions in an address bar that
 * nobody sees (0.45 of 1.5 s per page). Chromium reads one list only, so the others are those of Playwright 1.65.1.
 */
const FEATURES_OFF = [
  "WebUIOmniboxPopup",
  "WebUIOmniboxAimPopup",
  "AvoidUnnecessaryBeforeUnloadCheckSync",
  "DestroyProfileOnBrowserClose",
  "HttpsUpgrades",
  "HttpsFirstBalancedModeAutoEnable",
  "LensOverlay",
  "MediaRouter",
  "PaintHolding",
  "ThirdPartyStoragePartitioning",
  "AvoidCorsURLLoaderRestartOnRedirect",
  "TcpPortRandomizationWin",
  "OptimizationHints",
  "NetworkTimeServiceQuerying",
  "AimEnabled",
  "PreconnectToSearch",
  "msForceBrowserSignIn",
  "msEdgeUpdateLaunchServicesPreferredVersion",
];

/**
 * Starts a browser with an empty profile.
 * @returns {Promise<import("playwright-core").Browser>}
 */
export function startBrowser() {
  return chromium.launch({
    executablePath: findChromium(),
    headless: true,
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", `--disable-features=${FEATURES_OFF.join(",")}`],
  });
}

/**
 * Opens the page on a scene of the fake host.
 * @param {import("playwright-core").Browser} browser
 * @param {string} address
 * @param {{ scene?: string, scheme?: "light" | "dark", width?: number, height?: number, motion?: "reduce" | "no-preference", language?: string }} [options]
 */
export async function openPage(browser, address, options = {}) {
  const { scene = "", scheme = "light", width = 1180, height = 760, motion = "reduce", language } = options;
  const context = await browser.newContext({
    viewport: { width, height },
    colorScheme: scheme,
    reducedMotion: motion,
    permissions: ["clipboard-read", "clipboard-write"],
  });
  // A page opens within a second, but not on a busy machine.
  context.setDefaultTimeout(60_000);
  const page = await context.newPage();
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
  });
  const query = new URLSearchParams({ ...(scene && { scene }), ...(language && { language }) });
  await page.goto(query.size === 0 ? address : `${address}?${query}`);
  await page.getByTestId("composer").waitFor();
  return { page, errors, close: () => context.close() };
}
