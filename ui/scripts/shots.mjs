// Pictures of every view and state, light and dark: `npm run shots -- FOLDER`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { openPage, servePage, startBrowser } from "./browser.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** @param {Page} page @param {string} title */
const open = async (page, title) => {
  await page.getByTestId("open-conversation").filter({ hasText: title }).click();
  await page.getByTestId("message").first().waitFor();
};

/** @param {Page} page @param {string} text */
const send = async (page, text) => {
  await page.getByTestId("composer").fill(text);
  await page.getByTestId("send").click();
};

/** @param {Page} page @param {string} state */
const answerIs = (page, state) => page.locator(`[data-role=assistant][data-state=${state}]`).last().waitFor();

/** @type {{ name: string, scene?: string, width?: number, height?: number, act: (page: Page) => Promise<unknown> }[]} */
const pictures = [
  { name: "welcome", act: async () => {} },
  { name: "welcome-fresh", scene: "fresh", act: async () => {} },
  { name: "no-model", scene: "no-model", act: async () => {} },
  { name: "thread", act: (page) => open(page, "Borrow checker") },
  { name: "markdown", height: 1240, act: (page) => open(page, "Everything markdown") },
  { name: "hostile", act: (page) => open(page, "A page that tries") },
  { name: "streaming", scene: "slow", act: async (page) => {
    await page.evaluate("fakeHost.pace = 12");
    await send(page, "Why can't I push to a Vec while iterating?");
    await page.waitForFunction(() => (document.querySelector("[data-role=assistant] .markdown")?.textContent ?? "").length > 260);
    await page.evaluate("fakeHost.pace = 60000");
  } },
  { name: "waiting-loading", scene: "loading", act: (page) => send(page, "Hello?") },
  { name: "reading", scene: "slow", act: async (page) => { await send(page, "Hello?"); await answerIs(page, "reading"); await page.evaluate("fakeHost.pace = 60000"); await page.waitForTimeout(1000); } },
  { name: "stopped", act: async (page) => { await send(page, "Tell me a long story."); await answerIs(page, "streaming"); await page.waitForTimeout(900); await page.getByTestId("stop").click(); await answerIs(page, "stopped"); } },
  { name: "cut", act: async (page) => { await page.evaluate("fakeHost.pace = 0"); await send(page, "Cut this short, older messages and all."); await answerIs(page, "cut"); } },
  { name: "failed", act: async (page) => { await page.evaluate("fakeHost.pace = 0"); await send(page, "This fails."); await answerIs(page, "failed"); } },
  { name: "worker-died", act: async (page) => { await send(page, "Tell me a long story."); await answerIs(page, "streaming"); await page.waitForTimeout(600); await page.evaluate("fakeHost.killWorker()"); await answerIs(page, "failed"); } },
  { name: "model-failed", scene: "failed", act: async () => {} },
  { name: "search", act: async (page) => { await page.getByTestId("search").fill("the"); await page.getByTestId("search-hit").first().waitFor(); } },
  { name: "deleted", act: async (page) => { const item = page.getByTestId("conversation").nth(2); await item.hover(); await item.getByTestId("delete").click(); await page.getByTestId("toast").waitFor(); } },
  { name: "rename", act: async (page) => { await open(page, "Letter"); const item = page.getByTestId("conversation").nth(2); await item.hover(); await item.getByTestId("rename").click(); } },
  { name: "edit", act: async (page) => { await open(page, "Borrow checker"); await page.getByTestId("edit").first().click(); } },
  { name: "picker", act: (page) => page.getByTestId("model-pill").click() },
  { name: "instructions", act: async (page) => { await open(page, "Letter"); await page.getByTestId("instructions").click(); } },
  { name: "jump", act: async (page) => { await open(page, "Everything markdown"); await page.getByTestId("thread").evaluate((e) => e.scrollTo(0, 0)); await page.getByTestId("jump-to-latest").waitFor(); } },
  { name: "small-window", width: 720, height: 520, act: (page) => open(page, "Borrow checker") },
  { name: "small-welcome", width: 720, height: 520, act: async () => {} },
  { name: "models", act: (page) => page.getByTestId("view-models").click() },
  { name: "settings", height: 900, act: async (page) => { await page.getByTestId("view-settings").click(); await page.getByTestId("device-row").first().waitFor(); } },
];

const folder = process.argv[2];
const only = process.argv.slice(3);
if (!folder) {
  console.error("Usage: npm run shots -- FOLDER [NAME...]");
  process.exit(2);
}
mkdirSync(folder, { recursive: true });
const server = await servePage();
const browser = await startBrowser();
for (const { name, scene, width, height, act } of pictures) {
  if (only.length > 0 && !only.includes(name)) continue;
  for (const scheme of /** @type {const} */ (["light", "dark"])) {
    const { page, errors, close } = await openPage(browser, server.address, { scene, scheme, width, height });
    await act(page);
    await page.waitForTimeout(250);
    await page.screenshot({ path: join(folder, `${name}-${scheme}.png`) });
    if (errors.length > 0) console.error(`${name}: ${errors.join("; ")}`);
    await close();
  }
  console.log(name);
}
await browser.close();
await server.close();
