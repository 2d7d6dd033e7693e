// Every view, important dialog and menu of the window, and how to get there: for the tests that look at all of them.

import type { Page } from "playwright-core";
import type { FakeHost } from "../../src/lib/host/fake";
import { settingsPages } from "../../src/lib/stores/view";
import { lastAnswer, openConversation, openSettings, pace, send } from "./window";

/** A place: its name, its scene of the fake host, and the way to it. */
export type Place = readonly [name: string, scene: string, act: (page: Page) => Promise<unknown>];

const tune = (page: Page) => page.getByTestId("view-tune").click();

const run = async (page: Page, id: string) => {
  await tune(page);
  await page.locator(`[data-testid=run][data-id="${id}"]`).getByTestId("open-run").click();
  await page.getByTestId("loss-chart").waitFor();
};

const pair = async (page: Page) => {
  await run(page, "21");
  await page.getByTestId("try-it").click();
  await send(page, "My order is late, what now?");
  await page.getByTestId("vote").nth(1).waitFor();
};

/** Opens the menu of a conversation, or one of its buttons: both appear under the pointer. */
const onConversation = async (page: Page, button: string) => {
  const item = page.getByTestId("conversation").nth(2);
  await item.hover();
  await item.getByTestId(button).click();
};

const discover = async (page: Page) => {
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-discover").click();
  await page.getByTestId("catalog-model").first().waitFor();
};

const find = async (page: Page, query: string, end = "hub-status") => {
  await discover(page);
  await page.getByTestId("hub-query").fill(query);
  await page.getByTestId("hub-search").click();
  await page.getByTestId(end).filter({ hasText: /\S/ }).waitFor();
};

const repository = async (page: Page, query: string) => {
  await find(page, query);
  await page.getByTestId("hub-result").first().click();
  await page.getByTestId("variant").first().waitFor();
};

const drop = (page: Page, event: object) => page.evaluate((given) => (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop(given), event);

export const places: Place[] = [
  ["the welcome", "", async () => {}],
  ["no model", "no-model", async () => {}],
  ["a thread", "", (page) => openConversation(page, "Borrow checker")],
  ["every kind of Markdown", "", (page) => openConversation(page, "Everything markdown")],
  ["a hostile answer", "", (page) => openConversation(page, "A page that tries")],
  [
    "every kind of part",
    "parts",
    async (page) => {
      await openConversation(page, "Sales by quarter");
      await page.getByTestId("thought-toggle").first().click();
      await page.getByTestId("part-toggle").first().click();
    },
  ],
  [
    "an answer that grows",
    "slow",
    async (page) => {
      await pace(page, 5);
      await send(page, "Tell me a long story.");
      await lastAnswer(page, "streaming");
      await page.locator("[data-role=assistant] .markdown").waitFor();
      await pace(page, Number.POSITIVE_INFINITY);
    },
  ],
  ["an answer that failed", "", async (page) => (await send(page, "This one fails."), await lastAnswer(page, "failed"))],
  ["an answer that was cut", "", async (page) => (await send(page, "Cut this short, older messages and all."), await lastAnswer(page, "cut"))],
  ["search results", "", async (page) => (await page.getByTestId("search").fill("the"), await page.getByTestId("search-hit").first().waitFor())],
  ["a toast", "", async (page) => (await page.getByTestId("open-conversation").first().press("Delete"), await page.getByTestId("toast").hover())],
  ["the model picker", "", async (page) => (await page.getByTestId("model-pill").click(), await page.getByTestId("model-choice").first().waitFor())],
  ["the adapters", "", async (page) => (await pair(page), await page.getByTestId("adapter-pill").click(), await page.getByTestId("adapter").first().waitFor())],
  ["the system prompt", "", async (page) => (await openConversation(page, "Rye bread"), await page.getByTestId("instructions").click(), await page.getByTestId("instructions-text").waitFor())],
  ["a correction", "", async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("correct").last().click(), await page.getByTestId("correction").waitFor())],
  ["two answers", "", pair],
  ["answers whose model is loaded", "", async (page) => (await page.getByTestId("compare").click(), await page.getByTestId("contender-add").click(), await pace(page, Number.POSITIVE_INFINITY), await send(page, "What is the capital of France?"), await page.locator("[data-state=loading]").waitFor())],
  ["a contender", "", async (page) => (await pair(page), await page.getByTestId("contender").nth(1).click(), await page.getByTestId("contender-preset").waitFor())],
  ["the command palette", "", async (page) => (await page.keyboard.press("Control+k"), await page.keyboard.type("s"))],
  ["Models", "drafts", (page) => page.getByTestId("view-models").click()],
  ["models that do not fit", "too-big", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("card-fit").nth(2).waitFor())],
  ["Tune", "", async (page) => (await tune(page), await page.getByTestId("tune-start").waitFor())],
  ["Tune without runs", "fresh", async (page) => (await tune(page), await page.getByTestId("tune-start").waitFor())],
  ...["replies.jsonl", "orders.csv", "broken.jsonl"].map((name): Place => [
    `the data ${name}`,
    "",
    async (page) => {
      await drop(page, { type: "drop", paths: [`/home/you/${name}`] });
      await page.getByTestId("data-page").waitFor();
      await page.locator("[data-testid=facts], [data-testid=mapping], [data-testid=broken]").first().waitFor();
      if (name === "replies.jsonl") await page.getByTestId("advanced").click();
    },
  ]),
  ["a run", "", (page) => run(page, "21")],
  ["a run as a table", "", async (page) => (await run(page, "21"), await page.getByTestId("as-table").click())],
  ["an export", "", async (page) => (await run(page, "21"), await page.getByTestId("export").click(), await page.getByTestId("export-dialog").waitFor())],
  ...settingsPages.map(({ id, label }): Place => [
    `Settings, ${label}`,
    "two-gpus",
    async (page) => {
      await openSettings(page, "hardware");
      await page.getByTestId("device-row").first().waitFor();
      await openSettings(page, id);
    },
  ]),
  ["the catalog", "discover", discover],
  ["downloads", "downloads", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("tab-downloads").click(), await page.getByTestId("download-row").first().waitFor())],
  ["the conversation's settings", "", async (page) => (await openConversation(page, "Rye bread"), await page.getByTestId("chat-settings-toggle").click(), await page.getByTestId("chat-settings").waitFor())],
  [
    "the name of a preset",
    "presets",
    async (page) => {
      await openConversation(page, "Rye bread");
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("preset").selectOption({ label: "Storyteller" });
      await page.getByTestId("knob-temperature").locator("input").fill("0.5");
      await page.getByTestId("preset-menu").click();
      await page.getByTestId("preset-save").click();
      await page.getByTestId("preset-name").fill("storyteller");
      await page.keyboard.press("Enter");
      await page.getByTestId("preset-name-problem").waitFor();
    },
  ],
  ["the actions on presets", "presets", async (page) => (await page.getByTestId("chat-settings-toggle").click(), await page.getByTestId("preset").selectOption({ label: "Storyteller" }), await page.getByTestId("preset-menu").click(), await page.getByTestId("preset-delete").waitFor())],
  [
    "all of the conversation's settings",
    "",
    async (page) => {
      await openConversation(page, "Rye bread");
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("chat-settings-advanced").check();
      for (const group of await page.getByTestId("knob-group-toggle").all()) await group.click();
      await page.getByTestId("knob-logitBias").waitFor();
    },
  ],
  ["find in a conversation", "", async (page) => (await openConversation(page, "Rye bread"), await page.keyboard.press("Control+f"), await page.getByTestId("find").waitFor())],
  ["a plan that does not fit", "too-big", async (page) => (await openSettings(page, "models"), await page.getByTestId("layers").fill("31"), await page.locator("[data-testid=plan-verdict][data-verdict=wontFit]").waitFor())],
  ["devices with problems", "wrong-gpu", async (page) => (await openSettings(page, "hardware"), await page.getByTestId("device-problem").waitFor())],
  ["clearing a cache", "", async (page) => (await openSettings(page, "data"), await page.getByTestId("clear-cache").first().click(), await page.getByTestId("clear-dialog").waitFor())],
  [
    "a key that is taken",
    "",
    async (page) => {
      await openSettings(page, "shortcuts");
      await page.locator("[data-testid=shortcut][data-id=search]").getByTestId("change-key").click();
      await page.keyboard.press("Control+n");
      await page.getByTestId("key-conflict").waitFor();
    },
  ],
  ["the first start", "first-run", (page) => page.getByTestId("first-models").waitFor()],
  ["the menu of a conversation", "", async (page) => (await onConversation(page, "conversation-menu"), await page.getByTestId("pin").first().waitFor())],
  ["a new title", "", async (page) => (await openConversation(page, "Letter"), await onConversation(page, "rename"))],
  ["the bin", "", async (page) => (await onConversation(page, "delete"), await page.getByTestId("open-bin").click(), await page.getByTestId("binned").waitFor())],
  ["emptying the bin", "", async (page) => (await onConversation(page, "delete"), await page.getByTestId("open-bin").click(), await page.getByTestId("bin-empty").click(), await page.getByTestId("bin-empty-confirm").waitFor())],
  ["a message that is edited", "", async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("edit").first().click())],
  ["an answer that is edited", "", async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("edit-answer").last().click(), await page.getByTestId("edit-answer-text").waitFor())],
  ["the details of an answer", "", async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("details").last().click())],
  ["the menu of copies", "", async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("copy-menu").last().click())],
  ["two answers after a vote", "", async (page) => (await pair(page), await page.getByTestId("vote").first().click(), await page.getByTestId("voted").waitFor())],
  ["a palette that finds nothing", "", async (page) => (await page.keyboard.press("Control+k"), await page.keyboard.type("no such thing"))],
  ["a file over the window", "", (page) => drop(page, { type: "over", paths: ["x"] })],
  ["a link that was dropped", "", async (page) => {
    await page.evaluate(() => {
      const data = new DataTransfer();
      data.setData("text/plain", "hf.co/unsloth/Qwen3-0.6B-GGUF");
      document.querySelector("nav")?.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    });
    await page.getByTestId("link-dialog").waitFor();
  }],
  ["a link that was opened", "link", (page) => page.getByTestId("link-place").waitFor()],
  ["an address that was checked", "link", async (page) => (await page.getByTestId("link-agree").click(), await page.getByTestId("checked-verdict").waitFor())],
  ["a link to a conversation", "", async (page) => (await page.evaluate("fakeHost.openLinks({ type: 'conversation', id: 4 })"), await page.getByTestId("opened-link").waitFor())],
  ["removing a model", "discover", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("card-remove").nth(1).click(), await page.getByTestId("remove-dialog").waitFor())],
  ["removing a download", "downloads", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("tab-downloads").click(), await page.locator("[data-testid=download-row][data-state=paused]").getByTestId("remove-download").first().click(), await page.getByTestId("remove-download-dialog").waitFor())],
  ["the conversions of an original model", "discover", async (page) => (await find(page, "Qwen3-4B"), await page.getByTestId("hub-kind").selectOption("originals"), await page.locator("[data-testid=hub-result][data-id='Qwen/Qwen3-4B-Instruct-2507']").click(), await page.getByTestId("conversions").waitFor())],
  ["the hub's results", "discover", async (page) => (await find(page, ""), await page.getByTestId("only-supported").uncheck())],
  ["a repository", "discover", async (page) => (await repository(page, "qwen3-4b"), await page.getByTestId("check-variant").nth(5).click(), await page.getByTestId("checked-verdict").waitFor())],
  ["a run that failed", "", async (page) => (await tune(page), await page.locator('[data-testid=run][data-id="23"]').getByTestId("open-run").click(), await page.getByTestId("run-page").waitFor())],
  ["a verified export", "", async (page) => (await run(page, "21"), await page.getByTestId("export").click(), await page.getByTestId("format-gguf").check(), await page.getByTestId("export-write").click(), await page.getByTestId("verification").waitFor())],
  ["closing during a run", "", async (page) => {
    await drop(page, { type: "drop", paths: ["/home/you/replies.jsonl"] });
    await page.getByTestId("facts").waitFor();
    await pace(page, Number.POSITIVE_INFINITY);
    await page.getByTestId("train").click();
    await page.getByTestId("run-page").waitFor();
    await page.evaluate("fakeHost.runs().then((runs) => fakeHost.close(runs[0].id))");
    await page.getByTestId("closing").waitFor();
  }],
  ["a report of an import", "", async (page) => (await openSettings(page, "data"), await page.getByTestId("import-file").click(), await page.getByTestId("import-report").waitFor())],
  ["restoring a backup", "", async (page) => (await openSettings(page, "data"), await page.getByTestId("restore-backup").click(), await page.getByTestId("restore-confirm").waitFor())],
  ["adapters", "", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("import-adapter-folder").click(), await page.getByTestId("waiting-adapters").waitFor(), await page.getByTestId("card-adapters").click(), await page.getByTestId("adapter-misfits").click(), await page.getByTestId("adapter-misfit-list").waitFor())],
  ["folders and tags", "organized", async (page) => (await page.getByTestId("folder-toggle").first().click(), await openConversation(page, "Borrow checker"), await page.getByTestId("folder-pill").waitFor())],
  ["a folder's settings", "organized", async (page) => (await page.getByTestId("folder-toggle").first().hover(), await page.getByTestId("folder-menu").first().click(), await page.getByTestId("folder-settings").click(), await page.getByTestId("folder-dialog").waitFor())],
  ["a folder's settings with thinking", "thinks", async (page) => (await page.getByTestId("new-folder").click(), await page.getByTestId("folder-name").fill("Stories"), await page.keyboard.press("Enter"), await page.getByTestId("folder-toggle").first().hover(), await page.getByTestId("folder-menu").first().click(), await page.getByTestId("folder-settings").click(), await page.getByTestId("folder-dialog").getByTestId("thinking").waitFor())],
  ["thinking that a folder chooses", "thinks", async (page) => {
    await page.evaluate(async () => {
      const host = (window as unknown as { fakeHost: FakeHost }).fakeHost;
      const folder = await host.createFolder("Stories");
      await host.updateFolder({ ...folder, settings: { ...folder.settings, thinking: { enabled: true, effort: "high" } } });
    });
    await page.getByTestId("folder-toggle").hover();
    await page.getByTestId("folder-new-conversation").click();
    await page.getByTestId("thinking-choice").waitFor();
  }],
  ["moving a conversation", "organized", async (page) => (await onConversation(page, "conversation-menu"), await page.getByTestId("move").click(), await page.getByTestId("move-dialog").waitFor())],
  ["the tags of a conversation", "organized", async (page) => (await onConversation(page, "conversation-menu"), await page.getByTestId("edit-tags").click(), await page.getByTestId("tags-dialog").waitFor())],
  ["filters of the search", "organized", async (page) => (await page.getByTestId("tag").first().click(), await page.getByTestId("toggle-filters").click(), await page.getByTestId("filter-time").selectOption("custom"), await page.getByTestId("search-hit").first().waitFor())],
  ["saved prompts at the composer", "organized", async (page) => (await page.getByTestId("composer").pressSequentially("/"), await page.getByTestId("prompt-menu").waitFor())],
  ["the variables of a prompt", "organized", async (page) => (await page.getByTestId("composer").pressSequentially("/code"), await page.keyboard.press("Enter"), await page.getByTestId("variables-dialog").waitFor())],
  ["saved prompts", "organized", async (page) => (await openSettings(page, "chat"), await page.getByTestId("edit-prompts").click(), await page.getByTestId("saved-prompt").first().waitFor())],
  ["a saved prompt", "organized", async (page) => (await openSettings(page, "chat"), await page.getByTestId("edit-prompts").click(), await page.getByTestId("prompt-edit").first().click(), await page.getByTestId("prompt-editor").waitFor())],
  ["queued messages", "slow", async (page) => (await pace(page, 5), await send(page, "Tell me a long story."), await lastAnswer(page, "streaming"), await pace(page, Number.POSITIVE_INFINITY), await page.getByTestId("composer").fill("And then?"), await page.keyboard.press("Enter"), await page.getByTestId("queued").waitFor())],
  ["a chat template", "", async (page) => (await page.getByTestId("view-models").click(), await page.getByTestId("card-details").first().click(), await page.getByTestId("card-template").first().click(), await page.getByTestId("template-text").waitFor())],
  ["moving the data folder", "", async (page) => (await openSettings(page, "data"), await page.getByTestId("move-data").click(), await page.getByTestId("move-dialog").waitFor())],
];
