import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import type { HubKind, HubSort } from "../../src/lib/host";
import { drawn, open, openSettings, pace, useBrowser } from "./window";

useBrowser();

interface Fake {
  requests: string[];
  unreachable: boolean;
  measureIdle(): void;
  opened: string[];
  drop(drop: object): void;
  downloads(): Promise<readonly { state: { retryAt?: number } }[]>;
  catalog(): Promise<unknown>;
  searchHub(query: string, sort: HubSort, kind: HubKind): Promise<unknown>;
}

/** Runs a function on the fake host. */
function onHost<T>(page: Page, act: (host: Fake) => T): Promise<Awaited<T>> {
  return page.evaluate(`(${act.toString()})(window.fakeHost)`) as Promise<Awaited<T>>;
}

/** Waits until the host has answered what the page asked before: it answers in this order. */
const answered = (host: Fake) => Promise.all([host.catalog(), host.searchHub("", "downloads", "models")]);

/** Opens a part of Models on a scene. */
async function models(
  tab: "machine" | "discover" | "downloads",
  scene = "",
  ms = 0,
): Promise<{ page: Page; errors: string[] }> {
  const window = await open({ scene, height: 900 });
  await pace(window.page, ms);
  await window.page.getByTestId("view-models").click();
  await window.page.getByTestId(`tab-${tab}`).click();
  return window;
}

const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));
const card = (page: Page, id: string) => page.locator(`[data-testid=model-card][data-id='${id}']`);
const result = (page: Page, id: string) => page.locator(`[data-testid=hub-result][data-id='${id}']`);
const variant = (page: Page, name: string) => page.locator(`[data-testid=variant][data-name='${name}']`);
const download = (page: Page, name: string) => page.getByTestId("download-row").filter({ hasText: name });

/** Searches the hub and waits for the answer. */
async function search(page: Page, query: string): Promise<void> {
  await page.getByTestId("hub-query").fill(query);
  await page.getByTestId("hub-query").press("Enter");
  await page.getByTestId("hub-status").filter({ hasText: /\S/ }).waitFor();
}

describe("on this machine", () => {
  test("models say where they come from, and many can be filtered and sorted", async () => {
    const { page, errors } = await models("machine", "discover");
    expect(await card(page, "file-lm").getByTestId("card-source").textContent()).toBe("LM Studio");
    expect(await card(page, "smollm2-135m-instruct").getByTestId("card-source").textContent()).toBe(
      "Comes with Hearth",
    );
    expect(await page.getByTestId("disk-use").textContent()).toBe("7 models, 11.5 GB on disk");
    await page.getByTestId("filter-models").fill("ollama");
    await expect.poll(() => page.getByTestId("model-card").count()).toBe(1);
    await page.getByTestId("filter-models").fill("no such model");
    await page.getByText("No model matches").waitFor();
    await page.getByTestId("filter-models").fill("");
    await page.getByTestId("sort-models").selectOption("size");
    await expect.poll(() => page.getByTestId("model-card").first().getAttribute("data-id")).toBe("file-ollama");
    await card(page, "own-download").getByTestId("card-details").click();
    await expect
      .poll(() => card(page, "own-download").textContent())
      .toContain("hf.co/bartowski/SmolLM2-360M-Instruct-GGUF:Q8_0");
    // Of an architecture that was never seen with real weights, the details say so.
    await card(page, "file-hf").getByTestId("card-details").click();
    await expect.poll(() => card(page, "file-hf").textContent()).toContain("no real file of this architecture yet");
    expect(await card(page, "own-download").textContent()).not.toContain("no real file");
    expect(errors).toEqual([]);
  });

  test("the chat template of a model is unfolded and copied", async () => {
    const { page, errors } = await models("machine", "discover");
    const smol = card(page, "smollm2-135m-instruct");
    await smol.getByTestId("card-details").click();
    expect(await smol.getByTestId("template-text").count()).toBe(0);
    await smol.getByTestId("card-template").click();
    await expect.poll(() => smol.getByTestId("template-text").textContent()).toContain("{% for message in messages %}");
    await smol.getByTestId("template-copy").click();
    expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
      await smol.getByTestId("template-text").textContent(),
    );
    await card(page, "own-download").getByTestId("card-details").click();
    await card(page, "own-download").getByTestId("card-template").click();
    await card(page, "own-download").getByTestId("template-none").waitFor();
    await page.evaluate(
      `fakeHost.chatTemplate = () => Promise.reject({ code: "fileInvalid", reason: { area: "models", type: "templateTooLong", path: "/x.gguf", length: 300000, limit: 262144 } })`,
    );
    await card(page, "file-lm").getByTestId("card-details").click();
    await card(page, "file-lm").getByTestId("card-template").click();
    await expect
      .poll(() => card(page, "file-lm").getByTestId("template-problem").textContent())
      .toContain("300,000 bytes");
    expect(errors).toEqual([]);
  });

  test("removing says what it frees, and can be cancelled", async () => {
    const { page } = await models("machine", "discover");
    await card(page, "own-download").getByTestId("card-remove").click();
    expect(await page.getByTestId("remove-dialog").textContent()).toContain("Deletes the file, 386 MB.");
    await page.keyboard.press("Escape");
    await expect.poll(() => page.getByTestId("model-card").count()).toBe(8);
    expect(await focused(page)).toBe("card-remove");
    await card(page, "file-lm").getByTestId("card-remove").click();
    expect(await page.getByTestId("remove-dialog").textContent()).toContain(
      "the file stays, as it belongs to LM Studio",
    );
    await page.getByTestId("remove-confirm").click();
    await expect.poll(() => page.getByTestId("model-card").count()).toBe(7);
    expect(await page.getByTestId("announcer").textContent()).toContain("removed from the list");
    expect(await card(page, "smollm2-135m-instruct").getByTestId("card-remove").count()).toBe(0);
  });

  test("updates are looked for by a click, offered at the model, and downloaded", async () => {
    const { page, errors } = await models("machine", "discover", 1);
    expect(await onHost(page, (host) => host.requests)).toEqual([]);
    await page.getByTestId("check-updates").click();
    await card(page, "own-download").getByTestId("card-update").waitFor();
    expect(await page.getByTestId("card-update").count()).toBe(1);
    expect(await page.getByTestId("updates-found").textContent()).toBe("1 update available.");
    expect(await onHost(page, (host) => host.requests)).toEqual(["updates"]);
    await card(page, "own-download").getByTestId("get-update").click();
    await card(page, "own-download").getByTestId("card-update").waitFor({ state: "detached" });
    expect(await page.getByTestId("updates-found").textContent()).toContain("No updates");
    expect(errors).toEqual([]);
  });

  test("a folder is added, and its models appear", async () => {
    const { page } = await models("machine");
    await page.getByTestId("add-model-folder").click();
    await page.getByText("1 model found in more-models").waitFor();
    await expect.poll(() => page.getByTestId("model-card").count()).toBe(4);
    await page.getByTestId("toast-action").click();
    await expect.poll(() => page.getByTestId("model-card").count()).toBe(3);
    await page.getByTestId("rescan").click();
    await expect.poll(() => page.getByTestId("announcer").textContent()).toBe("3 models on this machine.");
  });

  test("dropped files are added, also several, and a folder as a folder", async () => {
    const { page } = await open();
    await pace(page, 0);
    await onHost(page, (host) => host.drop({ type: "drop", paths: ["/x/one.Q8_0.gguf", "/x/two.Q8_0.gguf"] }));
    await expect.poll(() => page.getByTestId("model-card").count()).toBe(5);
    await onHost(page, (host) => host.drop({ type: "drop", paths: ["/x/Qwen3-0.6B-GGUF"] }));
    await page.getByText("1 model found in Qwen3-0.6B-GGUF").waitFor();
  });
});

describe("discover", () => {
  test("shows what suits this machine without asking the network", async () => {
    const { page, errors } = await models("discover");
    const suited = page.getByTestId("suited").getByTestId("catalog-model");
    await expect.poll(() => suited.count()).toBe(3);
    expect(await suited.first().textContent()).toMatch(/Fits.*about 9\.5 tokens\/s, assumed.*2\.5 GB/s);
    expect(await page.locator("[data-testid=catalog-model][data-id='llama-3.3-70b']").textContent()).toContain(
      "Won't fit",
    );
    // A model that is here can be chatted with in place of a download.
    expect(
      await page.locator("[data-testid=catalog-model][data-id='qwen3-0.6b']").getByTestId("chat-model").count(),
    ).toBe(1);
    expect(await onHost(page, (host) => host.requests)).toEqual([]);
    expect(errors).toEqual([]);
  });

  test("searches after a pause in typing, once", async () => {
    const { page } = await models("discover");
    await page.getByTestId("hub-query").focus();
    await page.keyboard.type("qwen3");
    await page.getByTestId("hub-results").waitFor();
    expect(await onHost(page, (host) => host.requests)).toEqual(["search qwen3 trending"]);
    expect(await page.getByTestId("hub-status").textContent()).toBe("3 repositories");
    await page.getByTestId("hub-sort").selectOption("likes");
    await expect
      .poll(() => page.getByTestId("hub-result").first().getAttribute("data-id"))
      .toBe("unsloth/Qwen3-30B-A3B-GGUF");
    await page.getByTestId("hub-query").fill("");
    await page.getByTestId("suited").waitFor();
    expect(await page.getByTestId("hub-results").count()).toBe(0);
  });

  test("filters what is not supported or does not fit, and says so", async () => {
    const { page, errors } = await models("discover");
    await page.getByTestId("hub-popular").click();
    await page.getByTestId("hub-results").waitFor();
    expect(await page.getByTestId("hub-status").textContent()).toBe("13 repositories, 1 hidden by the filters");
    await page.getByTestId("only-supported").uncheck();
    await expect.poll(() => page.getByTestId("hub-status").textContent()).toBe("14 repositories");
    expect(await result(page, "ibm-granite/granite-4.0-h-tiny-GGUF").getByTestId("unsupported").count()).toBe(1);
    await page.getByTestId("only-fitting").check();
    await expect.poll(() => result(page, "bartowski/Llama-3.3-70B-Instruct-GGUF").count()).toBe(0);
    // Nothing is wider than the window, whatever the names.
    expect(
      await page.evaluate(
        () => document.querySelector("main")?.scrollWidth === document.querySelector("main")?.clientWidth,
      ),
    ).toBe(true);
    await search(page, "nothing has this name");
    expect(await page.getByTestId("hub-status").textContent()).toContain("No repository");
    expect(errors).toEqual([]);
  });

  test("an error is shown with its sentence, and can be retried", async () => {
    const { page } = await models("discover");
    await onHost(page, (host) => (host.unreachable = true));
    await page.getByTestId("hub-query").fill("gemma");
    await page.getByTestId("hub-search").click();
    await expect.poll(() => page.getByTestId("hub-failed").textContent()).toContain("the server was not found");
    await onHost(page, (host) => (host.unreachable = false));
    await page.getByTestId("hub-again").click();
    await page.getByTestId("hub-results").waitFor();
  });

  test("the catalog is searched too, also without the hub, and a button leads back to it", async () => {
    const { page, errors } = await models("discover");
    const matches = page.getByTestId("catalog-matches").getByTestId("catalog-model");
    await onHost(page, (host) => (host.unreachable = true));
    await page.getByTestId("hub-query").fill("qwen3 4b");
    await page.getByTestId("hub-query").press("Enter");
    await page.getByTestId("hub-failed").waitFor();
    expect(await matches.evaluateAll((rows) => rows.map((row) => row.getAttribute("data-id")))).toEqual([
      "qwen3-4b-instruct-2507",
    ]);
    await page.getByTestId("hub-back").click();
    await page.getByTestId("suited").waitFor();
    expect(await page.getByTestId("hub-query").inputValue()).toBe("");
    expect(await focused(page)).toBe("hub-query");
    await onHost(page, (host) => (host.unreachable = false));
    await search(page, "gemma");
    expect([await matches.count(), await page.getByTestId("hub-result").count()]).toEqual([1, 2]);
    await search(page, "nothing has this name");
    await page.getByTestId("hub-back").click();
    await page.getByTestId("suited").waitFor();
    expect(errors).toEqual([]);
  });

  test("a newer search replaces an older one that is still under way", async () => {
    const { page } = await models("discover");
    await pace(page, Infinity);
    const query = page.getByTestId("hub-query");
    await query.fill("gemma");
    await query.press("Enter");
    await page.getByTestId("hub-loading").waitFor();
    await query.fill("llama");
    await query.press("Enter");
    await pace(page, 0);
    await expect.poll(() => page.getByTestId("hub-status").textContent()).toBe("2 repositories");
    expect(await page.getByTestId("hub-results").textContent()).not.toContain("gemma");
    // Gone before its answer.
    await pace(page, Infinity);
    await query.fill("qwen");
    await query.press("Enter");
    await query.fill("");
    await pace(page, 0);
    await onHost(page, answered);
    await drawn(page);
    expect(await page.getByTestId("hub-results").count()).toBe(0);
  });

  test("a repository lists its variants, recommends one and checks another", async () => {
    const { page, errors } = await models("discover");
    await search(page, "70b");
    await result(page, "bartowski/Llama-3.3-70B-Instruct-GGUF").click();
    await expect.poll(() => page.getByTestId("variant").count()).toBe(11);
    expect(await variant(page, "Q4_K_M").textContent()).toContain("9 files");
    expect(await page.getByTestId("none-fits").count()).toBe(1);
    await page.getByTestId("repository-back").click();
    expect(await focused(page)).toBe("hub-result");
    await search(page, "qwen3-4b");
    await page.getByTestId("hub-result").click();
    await expect.poll(() => page.getByTestId("recommended").count()).toBe(1);
    expect(await page.getByTestId("none-fits").count()).toBe(0);
    await variant(page, "Q8_0").getByTestId("check-variant").click();
    await expect.poll(() => page.getByTestId("checked").getAttribute("data-state")).toBe("answered");
    expect(await page.getByTestId("checked").textContent()).toMatch(
      /Fits.*Expected speed\s*about 23 tokens\/s.*qwen3.*4B.*262,144 tokens/s,
    );
    await page.getByTestId("open-page").click();
    expect(await onHost(page, (host) => host.opened)).toEqual([
      "https://huggingface.co/unsloth/Qwen3-4B-Instruct-2507-GGUF",
    ]);
    expect(errors).toEqual([]);
  });

  test("a gated repository says what to do, and a check that fails why", async () => {
    const { page } = await models("discover");
    await search(page, "qat");
    await page.getByTestId("hub-result").click();
    await expect.poll(() => page.getByTestId("gated-note").textContent()).toContain("hf auth login");
    await page.getByTestId("check-variant").click();
    await expect
      .poll(() => page.getByTestId("check-variant-failed").textContent())
      .toContain("accept the model's terms");
  });

  test("an address is downloaded in place of a search", async () => {
    const { page } = await models("discover");
    const query = page.getByTestId("hub-query");
    await query.fill("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M");
    await page.getByTestId("address-card").waitFor();
    await query.fill("https://huggingface.co/unsloth/Qwen3-0.6B-GGUF");
    await page.getByTestId("address-variants").click();
    await page.getByTestId("variants").waitFor();
    await page.keyboard.press("Escape");
    await query.fill("ollama://qwen3:0.6b");
    await query.press("Enter");
    await page.getByText("qwen3:0.6b is ready").waitFor();
    expect(await onHost(page, (host) => host.requests)).toEqual(["repository unsloth/Qwen3-0.6B-GGUF"]);
    await query.fill("ollama://qwen3:4b");
    await page.getByTestId("address-check").click();
    await page.getByTestId("checked-verdict").waitFor();
    expect((await onHost(page, (host) => host.requests)).at(-1)).toBe("inspect ollama://qwen3:4b");
    await query.fill("https://example.com/page.html");
    await query.press("Enter");
    await expect
      .poll(() => page.getByTestId("toast").last().textContent())
      .toContain("is no model that Hearth can download");
  });

  test("offline asks nothing, and one click goes online", async () => {
    const { page } = await models("discover", "offline");
    await page.getByTestId("suited").waitFor();
    expect(await page.getByTestId("hub-query").count()).toBe(0);
    expect(await page.getByTestId("suited").getByTestId("download").first().isDisabled()).toBe(true);
    await page.getByTestId("offline-settings").click();
    expect(await page.getByTestId("offline").isChecked()).toBe(true);
    await page.getByTestId("view-models").click();
    await page.getByTestId("go-online").click();
    await search(page, "gemma");
    expect(await page.getByTestId("hub-result").count()).toBe(2);
  });
});

describe("downloads", () => {
  test("progress in the list and the rail, and end with a chat", async () => {
    const { page, errors } = await models("discover");
    await pace(page, Infinity);
    const chosen = page.locator("[data-testid=catalog-model][data-id='gemma-3-1b-it']");
    await chosen.getByTestId("download").click();
    await chosen.getByTestId("downloading").waitFor();
    await expect.poll(() => page.getByTestId("download-badge").getAttribute("aria-label")).toContain("1 download");
    await page.getByTestId("view-chat").click();
    await pace(page, 2);
    await page.getByText("Gemma 3 1B is ready").waitFor();
    expect(await page.getByTestId("download-badge").count()).toBe(0);
    await page.getByTestId("toast-action").click();
    await expect.poll(() => page.getByTestId("model-pill").textContent()).toContain("Gemma 3 1B");
    expect(errors).toEqual([]);
  });

  test("pause, resume and fail; what failed says why and continues", async () => {
    const { page } = await models("downloads", "downloads", Infinity);
    const state = (name: string) => download(page, name).getAttribute("data-state");
    expect(await download(page, "gemma3:4b").textContent()).toContain("912 MB of 3.3 GB, paused");
    await download(page, "Qwen3 4B").getByTestId("pause-download").click();
    await expect.poll(() => state("Qwen3 4B")).toBe("paused");
    expect(await focused(page)).toBe("resume-download");
    expect(await download(page, "fails-halfway").getByTestId("download-problem").textContent()).toContain(
      "Free some space",
    );
    await download(page, "fails-halfway").getByTestId("retry-download").click();
    await pace(page, 1);
    await expect.poll(() => state("fails-halfway")).toBe("failed");
    expect(await page.getByTestId("announcer").textContent()).toContain(
      "fails-halfway-1B Q4_K_M could not be downloaded",
    );
    await download(page, "fails-halfway").getByTestId("retry-download").click();
    await expect.poll(() => state("fails-halfway")).toBe("done");
    await expect
      .poll(() => download(page, "stalls-1B").getByTestId("download-progress").textContent())
      .toContain("waiting for the server");
    await page.getByTestId("clear-downloads").click();
    await expect.poll(() => download(page, "fails-halfway").count()).toBe(0);
  });

  test("without a network, a download says so at once, counts down, and is tried again by a click", async () => {
    const { page, errors } = await models("discover");
    await onHost(page, (host) => (host.unreachable = true));
    const chosen = page.locator("[data-testid=catalog-model][data-id='gemma-3-1b-it']");
    await chosen.getByTestId("download").click();
    await expect.poll(() => page.getByTestId("toast").textContent()).toContain("Gemma 3 1B cannot be downloaded yet");
    expect(await chosen.getByTestId("downloading").textContent()).toContain("Waiting");
    expect(await page.getByTestId("download-badge").getAttribute("aria-label")).toBe(
      "1 download waits for its next attempt",
    );
    await page.getByTestId("toast-action").click();
    const row = download(page, "Gemma 3 1B");
    expect(await row.getByTestId("download-waits").textContent()).toContain("the server was not found");
    const counted = () => row.getByTestId("download-progress").textContent();
    await expect.poll(counted).toMatch(/next try in [1-4]?\d s/);
    expect(await row.getByRole("progressbar").getAttribute("aria-valuetext")).toBe("Waiting");
    const retryAt = () =>
      onHost(page, async (host) => Math.max(...(await host.downloads()).map(({ state }) => state.retryAt ?? 0)));
    const before = await retryAt();
    await row.getByTestId("retry-now").click();
    await expect.poll(retryAt).toBeGreaterThan(before);
    expect(await focused(page)).toBe("pause-download");
    expect(await page.getByTestId("toast").count()).toBe(0);
    await onHost(page, (host) => (host.unreachable = false));
    await row.getByTestId("retry-now").click();
    await expect.poll(() => row.getAttribute("data-state")).toBe("done");
    expect(errors).toEqual([]);
  });

  test("a queued download says that the network is off", async () => {
    const { page } = await models("downloads", "downloads", Infinity);
    await openSettings(page, "models");
    await page.getByTestId("offline").check();
    await page.getByTestId("view-models").click();
    expect(await download(page, "Llama-3.3-70B").getByTestId("download-progress").textContent()).toContain("Offline");
  });

  test("a download that may not resume says so", async () => {
    const { page } = await models("downloads", "downloads");
    const row = download(page, "own-model.gguf");
    expect(await row.getByTestId("download-restarts").textContent()).toContain("may start from the beginning");
    expect(await row.getByTestId("resume-download").textContent()).toContain("Start again");
    expect(await download(page, "gemma3:4b").getByTestId("download-restarts").count()).toBe(0);
    await row.getByTestId("remove-download").click();
    expect(await page.getByTestId("remove-download-dialog").textContent()).not.toContain("Pause");
  });

  test("an unfinished one is removed after a question", async () => {
    const { page } = await models("downloads", "downloads");
    await download(page, "gemma3:4b").getByTestId("remove-download").click();
    expect(await page.getByTestId("remove-download-dialog").textContent()).toContain("Deletes the 912 MB");
    await page.getByTestId("remove-download-confirm").click();
    await expect.poll(() => download(page, "gemma3:4b").count()).toBe(0);
  });

  test("a failure out of sight is a toast that leads there", async () => {
    const { page } = await models("discover");
    await page.getByTestId("hub-query").fill("hf.co/someone/fails-halfway-1B-GGUF:Q8_0");
    await page.getByTestId("hub-query").press("Enter");
    await expect.poll(() => page.getByTestId("toast").textContent()).toContain("fails-halfway-1B Q8_0 failed");
    await page.getByTestId("toast-action").click();
    await page.getByTestId("download-problem").waitFor();
  });

  test("a dropped link is offered, never started", async () => {
    const { page } = await open();
    await pace(page, 0);
    const drop = (text: string) =>
      page.evaluate((dropped) => {
        const data = new DataTransfer();
        data.setData("text/plain", dropped);
        document
          .querySelector("nav")
          ?.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
      }, text);
    await drop("just words");
    expect(await page.getByTestId("link-dialog").count()).toBe(0);
    await drop("look: https://huggingface.co/unsloth/Qwen3-0.6B-GGUF");
    await page.getByTestId("link-dialog").waitFor();
    await page.keyboard.press("Escape");
    expect(await onHost(page, (host) => host.requests)).toEqual([]);
    await drop("hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0");
    await page.getByTestId("link-download").click();
    await page.getByText("Qwen3-0.6B Q8_0 is ready").waitFor();
  });
});

describe("the first run", () => {
  test("offers three models and downloads the chosen one", async () => {
    const { page, errors } = await open({ scene: "first-run" });
    await pace(page, 0);
    const offer = page.getByTestId("first-models");
    await expect.poll(() => offer.getByTestId("catalog-model").count()).toBe(3);
    expect(await offer.textContent()).toContain("SmolLM2 135M Instruct came with Hearth and answers meanwhile");
    await offer.getByTestId("download").nth(1).click();
    await page.getByText("Gemma 3 1B is ready").waitFor();
    await expect.poll(() => offer.count()).toBe(0);
    expect(errors).toEqual([]);
  });

  test.each([
    [1120, 760],
    [800, 600],
  ])("the offer moves nothing and leaves no button under the composer at %i x %i", async (width, height) => {
    const { page, errors } = await open({ scene: "busy-first-run", width, height });
    const offer = page.getByTestId("first-models");
    const suggestion = page.getByTestId("suggestion").first();
    await offer.getByTestId("progress").waitFor();
    const before = await suggestion.boundingBox();
    await pace(page, 0);
    await expect.poll(() => offer.getByTestId("catalog-model").count()).toBe(3);
    expect(await suggestion.boundingBox()).toEqual(before);
    const places = await page.evaluate(() => {
      const welcome = document.querySelector("[data-testid=welcome]");
      const composer = document.querySelector("[data-testid=composer]")?.getBoundingClientRect().top ?? 0;
      const end = Math.min(composer, welcome?.getBoundingClientRect().bottom ?? 0);
      const buttons = [...(welcome?.querySelectorAll("button") ?? [])];
      return buttons.map((button) => [button.textContent, Math.ceil(button.getBoundingClientRect().bottom - end)]);
    });
    expect(places.length).toBeGreaterThan(7);
    expect(places.filter(([, below]) => Number(below) > 0)).toEqual([]);
    expect(errors).toEqual([]);
  });

  test("a busy machine is measured again, and the offer follows", async () => {
    const { page } = await open({ scene: "busy-first-run" });
    await pace(page, 0);
    const first = page.getByTestId("first-models").getByTestId("catalog-model").first();
    await expect
      .poll(() => page.getByTestId("first-models-busy").textContent())
      .toContain("busy while it was measured");
    expect(await first.textContent()).toMatch(/Fits, but may be slow.*2\.8 tokens\/s/);
    expect(await first.locator(".speed").getAttribute("title")).toContain("measured while other programs");
    await onHost(page, (host) => host.measureIdle());
    await expect.poll(() => first.textContent()).toMatch(/Fits(?!,).*9\.5 tokens\/s/);
    expect(await page.getByTestId("first-models-busy").count()).toBe(0);
  });

  test("the offer is declined for good", async () => {
    const { page } = await open({ scene: "first-run" });
    await page.getByTestId("not-now").click();
    await expect.poll(() => page.getByTestId("first-models").count()).toBe(0);
    await page.reload();
    await expect.poll(() => page.getByTestId("suggestion").count()).toBe(4);
    await pace(page, 0);
    await onHost(page, answered);
    await drawn(page);
    expect(await page.getByTestId("first-models").count()).toBe(0);
  });
});

test("the hub's address, other programs and folders are settings", async () => {
  const { page, errors } = await open({ height: 1400 });
  await pace(page, 0);
  await openSettings(page, "models");
  const endpoint = page.getByTestId("hub-endpoint");
  const problem = page.getByTestId("hub-endpoint-problem");
  for (const wrong of [
    "http://example.com",
    "ftp://x",
    "hub",
    "https://user:secret@example.com",
    "https://example.com/?a=1",
  ]) {
    await endpoint.fill(wrong);
    await endpoint.press("Tab");
    await expect.poll(() => problem.textContent()).not.toBe("");
  }
  await endpoint.fill("http://localhost:8080/");
  await endpoint.press("Tab");
  await expect.poll(() => problem.textContent()).toBe("");
  await expect.poll(() => endpoint.inputValue()).toBe("http://localhost:8080");
  await page.getByTestId("add-folder").click();
  await expect.poll(() => page.getByTestId("model-folder").textContent()).toContain("/home/you/more-models");
  await page.getByTestId("remove-folder").click();
  await expect.poll(() => page.getByTestId("model-folder").count()).toBe(0);
  await page.getByTestId("list-other-programs").uncheck();
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-discover").click();
  expect(await page.getByTestId("hub-idle").textContent()).toContain("localhost:8080");
  expect(errors).toEqual([]);
});

test("a speed that was not measured with the model is labeled as expected", async () => {
  const { page } = await models("discover");
  const speed = page.getByTestId("catalog-model").first().locator(".speed");
  expect(await speed.getAttribute("title")).toMatch(/^Expected speed, from a /);
});

test("long names do not overflow a narrow window", async () => {
  const { page, errors } = await open({ scene: "discover", width: 480, height: 900 });
  await pace(page, 0);
  const overflow = () =>
    page.evaluate(
      () => (document.querySelector("main")?.scrollWidth ?? 0) - (document.querySelector("main")?.clientWidth ?? 0),
    );
  await page.getByTestId("view-models").click();
  await page.getByTestId("model-card").first().waitFor();
  expect(await overflow()).toBe(0);
  await page.getByTestId("tab-discover").click();
  await page.getByTestId("suited").waitFor();
  expect(await overflow()).toBe(0);
  await search(page, "merge-lab");
  expect(await overflow()).toBe(0);
  await page.getByTestId("hub-result").click();
  await variant(page, "Q4_K_M").getByTestId("check-variant").click();
  await page.getByTestId("checked-verdict").waitFor();
  expect(await overflow()).toBe(0);
  await variant(page, "Q4_K_M").getByTestId("download").click();
  await variant(page, "Q4_K_M").getByTestId("chat-model").waitFor();
  await page.getByTestId("tab-downloads").click();
  await page.getByTestId("download-row").waitFor();
  expect(await overflow()).toBe(0);
  expect(errors).toEqual([]);
});

test("the gallery works by keyboard alone", async () => {
  const { page } = await open({ height: 900 });
  await pace(page, 0);
  await page.getByTestId("view-models").focus();
  await page.keyboard.press("Enter");
  await page.getByTestId("tab-machine").focus();
  await page.keyboard.press("ArrowRight");
  expect(await focused(page)).toBe("tab-discover");
  expect(await page.getByTestId("tab-discover").getAttribute("aria-selected")).toBe("true");
  await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("hub-query");
  await page.keyboard.type("0.5b");
  await page.keyboard.press("Enter");
  await page.getByTestId("hub-results").waitFor();
  // The button, the kind, the sort, two filters and the button back come before the results.
  for (let i = 0; i < 7; i++) await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("hub-result");
  await page.keyboard.press("Enter");
  await page.getByTestId("variants").waitFor();
  expect(await page.evaluate(() => document.activeElement?.textContent)).toContain("Qwen2.5-0.5B-Instruct-GGUF");
  // The page's link, then Check and Download of the first variant.
  for (let i = 0; i < 3; i++) await page.keyboard.press("Tab");
  expect(await focused(page)).toBe("download");
  await page.keyboard.press("Enter");
  await page.getByText("Q2_K is ready").waitFor();
  await expect.poll(() => focused(page)).toBe("chat-model");
  await page.keyboard.press("Escape");
  await expect.poll(() => focused(page)).toBe("hub-result");
  await page.getByTestId("tab-discover").focus();
  await page.keyboard.press("End");
  expect(await focused(page)).toBe("tab-downloads");
  await expect.poll(() => page.getByTestId("download-row").getAttribute("data-state")).toBe("done");
});

test("the search field of the hub has a name that does not depend on its value", async () => {
  const { page } = await models("discover");
  const field = page.getByTestId("hub-query");
  await field.fill("qwen");
  // WebKit names a field inside its label by the text of both.
  expect(await field.evaluate((e: HTMLInputElement) => e.labels?.length)).toBe(0);
  expect(
    await page.getByRole("searchbox", { name: "Search huggingface.co, or paste a link", exact: true }).inputValue(),
  ).toBe("qwen");
});
