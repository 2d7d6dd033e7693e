// Measures frame times with 10,000 messages (streaming, scrolling, both) and during a run of 10,000
// steps. `npm run frames` prints them; the goal is no frame longer than 50 ms. It prints the time
// between frames and the CPU time of the longest task of the main thread: other work on the machine
// stretches only the first.

import { openPage, startBrowser } from "./browser.mjs";
import { servePage } from "./serve.mjs";

const server = await servePage();
const browser = await startBrowser();
const { page, close } = await openPage(browser, server.address, { scene: "many", motion: "no-preference" });
const devtools = await browser.newBrowserCDPSession();

/** @typedef {{ name: string, ph: string, pid: number, tid: number, dur?: number, tdur?: number, args: { name?: string } }} TraceEvent */

/** @type {TraceEvent[]} */
let trace = [];
devtools.on("Tracing.dataCollected", ({ value }) => trace.push(.../** @type {any} */ (value)));

/** The longest task of any page's main thread, in milliseconds of CPU time. */
function longestTask() {
  const mains = new Set(
    trace.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`),
  );
  let longest = 0;
  for (const e of trace)
    if (e.name === "RunTask" && e.ph === "X" && mains.has(`${e.pid} ${e.tid}`))
      longest = Math.max(longest, (e.tdur ?? e.dur ?? 0) / 1000);
  return longest;
}

/**
 * Records every frame during an action.
 * @param {string} name
 * @param {() => Promise<unknown>} act
 */
async function measure(name, act) {
  trace = [];
  await devtools.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["disabled-by-default-devtools.timeline", "__metadata"] },
  });
  await page.evaluate(() => {
    /** @type {number[]} */
    const frames = [];
    let last = performance.now();
    let on = true;
    const step = () => {
      const now = performance.now();
      frames.push(now - last);
      last = now;
      if (on) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
    Object.assign(window, { endOfFrames: () => ((on = false), frames.slice(1)) });
  });
  await act();
  /** @type {number[]} */
  const frames = await page.evaluate(() => /** @type {any} */ (window).endOfFrames());
  const complete = new Promise((resolve) => devtools.once("Tracing.tracingComplete", resolve));
  await devtools.send("Tracing.end");
  await complete;
  frames.sort((a, b) => a - b);
  const at = (/** @type {number} */ part) =>
    (frames[Math.min(frames.length - 1, Math.floor(frames.length * part))] ?? 0).toFixed(1);
  console.log(
    `${name}: ${frames.length} frames; from frame to frame median ${at(0.5)} ms, longest ${at(1)} ms; longest task ${longestTask().toFixed(1)} ms of processor time`,
  );
}

/** @param {number} count @param {number} pixels */
const scroll = (count, pixels) =>
  page.getByTestId("thread").evaluate(
    (element, [steps = 0, by = 0]) =>
      new Promise((resolve) => {
        let left = steps;
        const step = () => {
          // The thread follows its end until the user scrolls up.
          element.dispatchEvent(new WheelEvent("wheel", { deltaY: -by }));
          element.scrollTop -= by;
          if (--left > 0) requestAnimationFrame(step);
          else resolve(null);
        };
        requestAnimationFrame(step);
      }),
    [count, pixels],
  );

/** @param {string} text */
const send = async (text) => {
  await page.getByTestId("composer").fill(text);
  await page.getByTestId("send").click();
  await page.locator("[data-role=assistant][data-state=streaming]").waitFor();
};
const ended = () => page.getByTestId("send").waitFor({ timeout: 120_000 });

await measure("opening", async () => {
  await page.getByTestId("open-conversation").first().click();
  await page.getByTestId("message").first().waitFor();
});
console.log(`10,000 messages are open, ${await page.getByTestId("message").count()} of them exist in the page`);
await send("Tell me a long story.");
await measure("streaming at the end", ended);
await measure("scrolling 60 pixels a frame", () => scroll(240, 60));
await measure("scrolling 600 pixels a frame", () => scroll(160, 600));
await page.evaluate("fakeHost.pace = 8");
await send("Show me everything you can format.");
await measure("streaming and scrolling", async () => {
  await scroll(160, 40);
  await ended();
});
await send("Give me the lecture.");
await measure("streaming formulas, code and a diagram", ended);
await page.keyboard.press("Control+f");
await measure("finding in 10,000 messages", async () => {
  await page.getByTestId("find-text").fill("heating");
  await page.waitForFunction(
    () => /^[\d,]+ of [\d,]+$/.test(document.querySelector("[data-testid=find-count]")?.textContent ?? ""),
    undefined,
    { timeout: 120_000 },
  );
});
await page.keyboard.press("Escape");
await page.evaluate("fakeHost.pace = 0");
await page.evaluate("fakeHost.drop({ type: 'drop', paths: ['/home/you/endless.jsonl'] })");
await page.getByTestId("train").click();
const steps = () =>
  page.waitForFunction(
    (least) =>
      Number(document.querySelector("[data-testid=run-tiles] dd")?.firstChild?.textContent?.replace(",", "")) >= least,
    10_000,
    { timeout: 120_000 },
  );
await measure("training, to step 10,000", steps);
await close();
await browser.close();
await server.close();
