// A headless Chromium on the page with the fake host: shared by browser tests, screenshots and the
// frame measurement.

import { spawnSync } from "node:child_process";
import { chromium } from "playwright-core";

/** The path of an empty page with the page's origin. */
export const EMPTY = "empty";

/**
 * The browser named by CHROME, else the first one on the path or in its default location. The
 * headless shell is the same engine without the browser's own windows and services, so it opens
 * pages in less time.
 */
function findChromium() {
  const named = process.env.CHROME;
  if (named) return named;
  const places = [
    "chromium-headless-shell",
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
    const lookup = spawnSync(process.platform === "win32" ? "where" : "which", [place], { encoding: "utf8" });
    const path = lookup.stdout?.split(/\r?\n/)[0];
    if (lookup.status === 0 && path) return path;
  }
  throw new Error("No Chromium was found. Install Chromium or Chrome, or set CHROME to its executable.");
}

/**
 * Features of Chromium that are off. The first two start a process for each context, for
 * suggestions in an address bar that is not shown (0.45 of 1.5 s per page). Chromium reads only one
 * list, so the other entries are copied from Playwright 1.65.1.
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
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      `--disable-features=${FEATURES_OFF.join(",")}`,
    ],
  });
}

/**
 * Appearance and content of a window. `textSize` is in percent: as in the desktop window, it scales
 * the whole page.
 * @typedef {{ scene?: string, scheme?: "light" | "dark", width?: number, height?: number, textSize?: number, motion?: "reduce" | "no-preference", language?: string }} WindowOptions
 */

/** Permissions of every page. */
export const PERMISSIONS = ["clipboard-read", "clipboard-write"];

/** Milliseconds for a step. A page opens within a second, but not on a busy machine. */
export const STEP_LIMIT = 60_000;

/**
 * Prefix of the console message that a component of the tested page writes when it is rendered. Its
 * path follows.
 */
export const RENDERED = "rendered: ";

/** The components that pages of this process rendered. @type {Set<string>} */
export const rendered = new Set();

/**
 * The emulated screen of a window.
 * @param {WindowOptions} options
 */
export function screen({ scheme = "light", width = 1180, height = 760, textSize = 100, motion = "reduce" }) {
  const scale = textSize / 100;
  const viewport = { width: Math.round(width / scale), height: Math.round(height / scale) };
  return { viewport, scale, media: { colorScheme: scheme, reducedMotion: motion } };
}

/**
 * Opens an empty window in a new context.
 * @param {import("playwright-core").Browser} browser
 * @param {WindowOptions} options
 */
export async function openWindow(browser, options) {
  const { viewport, scale, media } = screen(options);
  const context = await browser.newContext({
    viewport,
    deviceScaleFactor: scale,
    ...media,
    permissions: PERMISSIONS,
  });
  context.setDefaultTimeout(STEP_LIMIT);
  return { context, page: await context.newPage() };
}

/**
 * Opens the page with a scene of the fake host. Returns the list of its errors, which grows later.
 * @param {import("playwright-core").Page} page
 * @param {string} address
 * @param {WindowOptions} options
 */
export async function showPage(page, address, { scene, language }) {
  /** @type {string[]} */
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") errors.push(message.text());
    if (message.type() === "debug" && message.text().startsWith(RENDERED))
      rendered.add(message.text().slice(RENDERED.length));
  });
  const query = new URLSearchParams({ ...(scene && { scene }), ...(language && { language }) });
  await page.goto(query.size === 0 ? address : `${address}?${query}`);
  await page.getByTestId("composer").waitFor();
  return errors;
}

/**
 * Opens a window on a scene of the fake host.
 * @param {import("playwright-core").Browser} browser
 * @param {string} address
 * @param {WindowOptions} [options]
 */
export async function openPage(browser, address, options = {}) {
  const { context, page } = await openWindow(browser, options);
  const errors = await showPage(page, address, options);
  return { page, errors, close: () => context.close() };
}
