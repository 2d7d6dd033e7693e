// A test must not see what an earlier one left: what a page can observe is the same after the reset
// as in a new context.

import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { showPage, startBrowser } from "../../scripts/browser.mjs";
import { recordRendered } from "./rendered";
import { ReusedPage } from "./reuse";

recordRendered();
let browser: Browser;
beforeAll(async () => {
  browser = await startBrowser();
});
afterAll(() => browser.close());

const emitted = (emitter: unknown) => {
  const { eventNames, listenerCount } = emitter as { eventNames(): string[]; listenerCount(event: string): number };
  return eventNames.call(emitter).map((event) => [event, listenerCount.call(emitter, event)]);
};

/** Everything that a page can observe of what was done before it. */
async function observed(context: BrowserContext, page: Page): Promise<object> {
  const listeners = [emitted(page), emitted(context)];
  const requests: Record<string, string>[] = [];
  page.on("request", (request) => requests.push(request.headers()));
  const errors = await showPage(page, inject("address"), {});
  await page.getByTestId("skip").focus();
  const inside = await page.evaluate(async () => {
    const states = async (names: string[]) =>
      Promise.all(
        names.map(async (name) => [name, (await navigator.permissions.query({ name: name as PermissionName })).state]),
      );
    const key = new Promise<unknown>((resolve) =>
      addEventListener(
        "keydown",
        ({ altKey, ctrlKey, metaKey, shiftKey }) => resolve({ altKey, ctrlKey, metaKey, shiftKey }),
        { once: true },
      ),
    );
    Object.assign(window, { key });
    const media = [
      "(prefers-color-scheme: dark)",
      "(prefers-reduced-motion: reduce)",
      "(prefers-contrast: more)",
      "(forced-colors: active)",
      "print",
      "(hover: hover)",
    ];
    return {
      localStorage: { ...localStorage },
      sessionStorage: { ...sessionStorage },
      databases: (await indexedDB.databases()).map(({ name }) => name),
      caches: await caches.keys(),
      cookie: document.cookie,
      workers: (await navigator.serviceWorker.getRegistrations()).length,
      clipboard: await navigator.clipboard.readText(),
      name: window.name,
      history: history.length,
      size: [innerWidth, innerHeight, outerWidth, outerHeight, screen.width, screen.height],
      media: media.filter((query) => matchMedia(query).matches),
      languages: navigator.languages,
      agent: navigator.userAgent,
      zone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      late: Math.abs(Date.now() - performance.timeOrigin - performance.now()) > 1000,
      online: navigator.onLine,
      permissions: await states(["clipboard-read", "clipboard-write", "geolocation", "notifications"]),
      fetched: await fetch("./flame.svg").then((response) => response.headers.get("content-type")),
      left: Object.keys(window).filter((name) => name.startsWith("left")),
      hovered: [...document.querySelectorAll("button:hover, a:hover, li:hover")].map((element) => element.outerHTML),
      focused: document.hasFocus(),
    };
  });
  await page.keyboard.press("x");
  await context.grantPermissions(["geolocation"]);
  return {
    ...inside,
    position: await page.evaluate(
      () =>
        new Promise((resolve) =>
          navigator.geolocation.getCurrentPosition(
            ({ coords }) => resolve(coords.latitude),
            () => resolve("none"),
            { timeout: 1000 },
          ),
        ),
    ),
    key: await page.evaluate(() => (window as unknown as { key: Promise<unknown> }).key),
    headers: requests.map((headers) => Object.keys(headers).filter((name) => name.startsWith("x-"))),
    listeners,
    pages: context.pages().length,
    cookies: await context.cookies(),
    errors,
  };
}

/** Leaves something of every kind that the reset takes back. */
async function dirty(context: BrowserContext, page: Page): Promise<void> {
  await showPage(page, inject("address"), { scene: "organized", language: "de" });
  await page.getByTestId("composer").fill("A draft, which the page saves.");
  await page.evaluate(async () => {
    localStorage.setItem("left", "1");
    sessionStorage.setItem("left", "1");
    document.cookie = "left=1";
    window.name = "left";
    Object.assign(window, { left: 1 });
    history.pushState({}, "", "?left");
    await navigator.clipboard.writeText("left");
    await caches.open("left");
    await new Promise((resolve) => (indexedDB.open("left").onsuccess = resolve));
    addEventListener("pagehide", () => localStorage.setItem("later", "1"));
  });
  await context.addCookies([{ name: "left", value: "1", url: inject("address"), httpOnly: true }]);
  await context.grantPermissions(["geolocation", "notifications"]);
  await context.setGeolocation({ latitude: 1, longitude: 1 });
  await context.setExtraHTTPHeaders({ "x-left": "context" });
  await page.setExtraHTTPHeaders({ "x-left": "page" });
  for (const target of [page, context])
    await target.route("**/flame.svg", (route) => route.fulfill({ contentType: "text/plain", body: "left" }));
  page.on("request", () => {});
  page.once("dialog", () => {});
  context.on("request", () => {});
  await page.emulateMedia({
    media: "print",
    colorScheme: "dark",
    reducedMotion: "no-preference",
    contrast: "more",
    forcedColors: "active",
  });
  await page.setViewportSize({ width: 480, height: 500 });
  await page.getByTestId("view-tune").hover();
  await page.mouse.down();
  for (const key of ["Shift", "Control", "Alt", "Meta"]) await page.keyboard.down(key);
  for (const target of [page, context]) {
    target.setDefaultTimeout(1);
    target.setDefaultNavigationTimeout(1);
  }
  await context.setOffline(true);
}

test("a reset page has the state of a new page", async () => {
  const newPage = await ReusedPage.open(browser, inject("address"), {});
  const expected = await observed(newPage.context, newPage.page);
  await newPage.close();
  const reused = await ReusedPage.open(browser, inject("address"), {});
  await dirty(reused.context, reused.page);
  expect(await reused.reset({})).toBe(true);
  expect(await observed(reused.context, reused.page)).toEqual(expected);
  expect(await reused.reset({ scheme: "dark", motion: "no-preference", width: 500, height: 400 })).toBe(true);
  await showPage(reused.page, inject("address"), {});
  const looks = () => [
    innerWidth,
    innerHeight,
    matchMedia("(prefers-color-scheme: dark)").matches,
    matchMedia("(prefers-reduced-motion: reduce)").matches,
  ];
  expect(await reused.page.evaluate(looks)).toEqual([500, 400, true, false]);
  await reused.close();
});

test.each<[string, (page: Page, context: BrowserContext) => Promise<unknown>]>([
  ["an initial script", (page) => page.addInitScript("window.left = 1")],
  ["an initial script of the context", (_, context) => context.addInitScript("window.left = 1")],
  ["a function of the test in the page", (page) => page.exposeFunction("left", () => {})],
  ["a clock that stands", (page) => page.clock.setFixedTime(0)],
  ["a session of the browser's protocol", (page, context) => context.newCDPSession(page)],
  ["another page", (_, context) => context.newPage()],
  ["another page that was closed", async (_, context) => (await context.newPage()).close()],
  [
    "a window that the page opened",
    (page) => Promise.all([page.waitForEvent("popup"), page.evaluate(() => void window.open("about:blank"))]),
  ],
  [
    "a window that the page opened and closed",
    (page) =>
      Promise.all([
        page.waitForEvent("popup").then((popup) => popup.waitForEvent("close")),
        page.evaluate(() => void setTimeout((opened) => opened?.close(), 0, window.open("about:blank"))),
      ]),
  ],
  ["another origin", (page) => page.goto("data:text/html,left")],
  ["a closed page", (page) => page.close()],
])("a page is not used again after %s", async (_, act) => {
  const reused = await ReusedPage.open(browser, inject("address"), {});
  await showPage(reused.page, inject("address"), {});
  expect(await reused.reset({})).toBe(true);
  await showPage(reused.page, inject("address"), {});
  await act(reused.page, reused.context);
  expect(await reused.reset({})).toBe(false);
  await reused.close();
});
