// A page that the tests of a file use in turn. Its reset makes it the page of a new context, in
// less than half the time: the cache keeps the page's files.

import type { Browser, BrowserContext, CDPSession, Page } from "playwright-core";
import { EMPTY, openWindow, PERMISSIONS, screen, STEP_LIMIT, type WindowOptions } from "../../scripts/browser.mjs";

/** Methods whose effect lasts as long as the context, which is then not reused. */
const LASTING = {
  page: ["addInitScript", "addLocatorHandler", "exposeBinding", "exposeFunction", "routeFromHAR", "routeWebSocket"],
  context: [
    "addInitScript",
    "exposeBinding",
    "exposeFunction",
    "newCDPSession",
    "routeFromHAR",
    "routeWebSocket",
    "setHTTPCredentials",
  ],
  clock: ["fastForward", "install", "pauseAt", "resume", "runFor", "setFixedTime", "setSystemTime"],
};

/** Keys that stay down until they are released. */
const HELD_KEYS = ["Alt", "Control", "Meta", "Shift"];

type Listener = (...args: unknown[]) => void;
interface Emitter {
  eventNames(): (string | symbol)[];
  listeners(event: string | symbol): Listener[];
  off(event: string | symbol, listener: Listener): unknown;
}

export class ReusedPage {
  /** Whether something was changed that the reset cannot take back. */
  private spent = false;
  private readonly takeBackListeners: (() => void)[];

  private constructor(
    private readonly address: string,
    readonly context: BrowserContext,
    readonly page: Page,
    private readonly session: CDPSession,
  ) {
    context.on("page", () => (this.spent = true));
    // The reset clears the storage of this origin only.
    page.on("framenavigated", (frame) => {
      if (new URL(frame.url()).origin !== new URL(address).origin) this.spent = true;
    });
    this.takeBackListeners = [page, context].map((emitter) => rememberListeners(emitter as unknown as Emitter));
    const targets = { page, context, clock: context.clock };
    for (const [name, methods] of Object.entries(LASTING))
      for (const method of methods) this.spendBy(targets[name as keyof typeof targets], method);
  }

  static async open(browser: Browser, address: string, options: WindowOptions): Promise<ReusedPage> {
    const { context, page } = await openWindow(browser, options);
    return new ReusedPage(address, context, page, await context.newCDPSession(page));
  }

  /**
   * Makes the page one of a new context, but for its cache. Returns false if that needs a new
   * context.
   */
  async reset(options: WindowOptions): Promise<boolean> {
    // A page that does not answer, such as one that crashed, is not reused.
    return this.tryReset(options).catch(() => false);
  }

  private async tryReset(options: WindowOptions): Promise<boolean> {
    if (this.spent || this.page.isClosed()) return false;
    const { context, page, session } = this;
    const { viewport, media } = screen(options);
    for (const takeBack of this.takeBackListeners) takeBack();
    await Promise.all([
      page.unrouteAll({ behavior: "ignoreErrors" }),
      context.unrouteAll({ behavior: "ignoreErrors" }),
    ]);
    // These go before limits of the context.
    page.setDefaultTimeout(STEP_LIMIT);
    page.setDefaultNavigationTimeout(STEP_LIMIT);
    await Promise.all([
      context.setOffline(false),
      context.setGeolocation(null),
      context.setExtraHTTPHeaders({}),
      page.setExtraHTTPHeaders({}),
      context.clearPermissions().then(() => context.grantPermissions(PERMISSIONS)),
      page.setViewportSize(viewport),
      page.emulateMedia({ media: null, forcedColors: "none", contrast: "no-preference", ...media }),
    ]);
    // The old page can write nothing after this.
    await page.goto(new URL(EMPTY, this.address).href);
    for (const button of ["left", "middle", "right"] as const) await page.mouse.up({ button });
    for (const key of HELD_KEYS) await page.keyboard.up(key);
    await page.mouse.move(0, 0);
    await session.send("Storage.clearDataForOrigin", { origin: new URL(this.address).origin, storageTypes: "all" });
    await context.clearCookies();
    await page.evaluate(async () => {
      localStorage.clear();
      sessionStorage.clear();
      window.name = "";
      await navigator.clipboard.writeText("");
    });
    await session.send("Page.resetNavigationHistory");
    return true;
  }

  close(): Promise<void> {
    return this.context.close();
  }

  private spendBy(target: object, method: string): void {
    const methods = target as Record<string, (...args: unknown[]) => unknown>;
    const original = methods[method];
    if (!original)
      throw new Error(`Playwright has no ${method} any more: see whether the reset covers what replaced it.`);
    methods[method] = (...args) => {
      this.spent = true;
      return original.apply(target, args);
    };
  }
}

/** Returns a function that removes the listeners which are added from now on. */
function rememberListeners(emitter: Emitter): () => void {
  const original = new Map(emitter.eventNames().map((event) => [event, emitter.listeners(event)]));
  return () => {
    for (const event of emitter.eventNames())
      for (const listener of emitter.listeners(event))
        if (!original.get(event)?.includes(listener)) emitter.off(event, listener);
  };
}
