// The places that show a failure, one for each that the fake host can play, and the stages of a
// load.

import type { Page } from "playwright-core";
import { lastAnswer, openConversation, openSettings, pace, send } from "../window";
import { discover, drop, find, onConversation, repository, run, tune, type Place } from "./place";

/** Sets fields of the fake host. */
const set = (page: Page, fields: Record<string, string | boolean>) =>
  page.evaluate((args) => {
    Object.assign((window as unknown as { fakeHost: object }).fakeHost, args);
  }, fields);

const toast = (page: Page) => page.getByTestId("toast").first().waitFor();

/** Drops a dataset and starts a run, which the pace holds before its first step. */
async function holdRun(page: Page, path: string): Promise<void> {
  await drop(page, { type: "drop", paths: [path] });
  await page.getByTestId("facts").waitFor();
  await pace(page, Number.POSITIVE_INFINITY);
  await page.getByTestId("train").click();
  await page.getByTestId("run-page").waitFor();
}

/** Checks the first variant of the first repository that is found. */
async function checkVariant(page: Page, query: string): Promise<void> {
  await find(page, query);
  await page.getByTestId("only-supported").uncheck();
  await page.getByTestId("hub-result").first().click();
  await page.getByTestId("check-variant").first().click();
  await page.getByTestId("check-variant-failed").waitFor();
}

/** Types a token and saves it. */
async function saveToken(page: Page, token: string): Promise<void> {
  await openSettings(page, "models");
  await page.getByTestId("hub-token-field").fill(token);
  await page.getByTestId("hub-token-save").click();
  await page.getByTestId("hub-token-problem").filter({ hasText: /\S/ }).waitFor();
}

const chat: Place[] = [
  [
    "a worker that crashed",
    "",
    async (page) => (await page.evaluate("fakeHost.killWorker()"), await page.getByTestId("worker-died").waitFor()),
  ],
  [
    "an answer whose worker crashed",
    "slow",
    async (page) => {
      await pace(page, 5);
      await send(page, "Tell me a long story.");
      await lastAnswer(page, "streaming");
      await page.evaluate("fakeHost.killWorker()");
      await lastAnswer(page, "failed");
    },
  ],
  [
    "an answer without a model",
    "no-model",
    async (page) => {
      await page.evaluate("fakeHost.send(null, null, 'Is there a model?')");
      await openConversation(page, "Is there a model?");
      await lastAnswer(page, "failed");
    },
  ],
  ["a model that failed to load", "failed", (page) => page.getByTestId("model-failed").waitFor()],
  ["a model that is being loaded", "loading", (page) => page.getByTestId("view-models").click()],
  [
    "an update while Hearth runs",
    "",
    async (page) => (await page.evaluate("fakeHost.update()"), await page.getByTestId("model-failed").waitFor()),
  ],
  ["a message that is refused", "", async (page) => (await send(page, "/refuse"), await toast(page))],
  [
    "a conversation that is gone",
    "",
    async (page) => (
      await page.evaluate("fakeHost.world.conversations.delete(4)"),
      await page.getByTestId("open-conversation").filter({ hasText: "Rye bread" }).click(),
      await page.getByTestId("open-failed").waitFor()
    ),
  ],
  ["a store that is locked", "", async (page) => (await page.evaluate("fakeHost.lockStore(true)"), await toast(page))],
  [
    "a file that is not text",
    "",
    async (page) => (await drop(page, { type: "drop", paths: ["/x/photo.png"] }), await toast(page)),
  ],
  [
    "a link that is refused",
    "",
    async (page) => (
      await page.evaluate("fakeHost.openLinks({ type: 'refused', reason: 'hiddenCharacters' })"),
      await toast(page)
    ),
  ],
  [
    "a preset that cannot be imported",
    "presets",
    async (page) => {
      await set(page, { presetFile: "/x/broken.json" });
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("preset-menu").click();
      await page.getByTestId("preset-import").click();
      await toast(page);
    },
  ],
  [
    "a tag that is too long",
    "organized",
    async (page) => {
      await onConversation(page, "conversation-menu");
      await page.getByTestId("edit-tags").click();
      await page.getByTestId("tag-new").fill("x".repeat(41));
      await page.getByTestId("tag-add").click();
      await page.locator("[data-testid=tag-hint][role=alert]").waitFor();
    },
  ],
  ...["no/slash", "shorten"].map((name): Place => [
    `a prompt with the name ${name}`,
    "organized",
    async (page) => {
      await openSettings(page, "chat");
      await page.getByTestId("edit-prompts").click();
      await page.getByTestId("prompt-new").click();
      await page.getByTestId("prompt-name").fill(name);
      await page.getByTestId("prompt-text").fill("Review this.");
      await page.getByTestId("prompt-save").click();
      await page.locator("[data-testid=prompt-name-hint][role=alert]").waitFor();
    },
  ]),
];

const data: Place[] = [
  [
    "an import without conversations",
    "",
    async (page) => (await drop(page, { type: "drop", paths: ["/home/you/photos.zip"] }), await toast(page)),
  ],
  [
    "an import that is cancelled",
    "",
    async (page) => {
      await openSettings(page, "data");
      await pace(page, 200);
      await page.getByTestId("import-file").click();
      await page.getByTestId("import-cancel").click();
      await toast(page);
    },
  ],
  [
    "a backup that is damaged",
    "",
    async (page) => {
      await set(page, { backup: "/media/you/damaged.hearthbackup" });
      await openSettings(page, "data");
      await page.getByTestId("restore-backup").click();
      await page.getByTestId("restore-confirm").click();
      await toast(page);
    },
  ],
  [
    "a restoration that is cancelled",
    "",
    async (page) => {
      await openSettings(page, "data");
      await pace(page, 200);
      await page.getByTestId("restore-backup").click();
      await page.getByTestId("restore-confirm").click();
      await page.getByTestId("cancel-extraction").click();
      await toast(page);
    },
  ],
  [
    "a move of the data folder that is cancelled",
    "",
    async (page) => {
      await openSettings(page, "data");
      await pace(page, 200);
      await page.getByTestId("move-data").click();
      await page.getByTestId("move-confirm").click();
      await page.getByTestId("move-dialog").getByRole("progressbar").waitFor();
      await page.getByTestId("move-cancel").click();
      await toast(page);
    },
  ],
  [
    "a move into the data folder",
    "",
    async (page) => {
      await set(page, { dataFolder: "/home/you/.local/share/hearth" });
      await openSettings(page, "data");
      await page.getByTestId("move-data").click();
      await toast(page);
    },
  ],
];

const models: Place[] = [
  [
    "a hub that is unreachable",
    "discover",
    async (page) => (await set(page, { unreachable: true }), await find(page, "gemma", "hub-failed")),
  ],
  [
    "a repository that does not exist",
    "",
    async (page) => {
      const place = "{ type: 'hub', owner: 'no', name: 'such', revision: null, quantization: null, file: null }";
      await page.evaluate(`fakeHost.openLinks({ type: 'model', source: 'hf.co/no/such', place: ${place} })`);
      await page.getByTestId("link-agree").click();
      await page.getByTestId("repository-failed").waitFor();
    },
  ],
  ["a gated repository", "discover", (page) => checkVariant(page, "qat")],
  ["an unsupported architecture", "discover", (page) => checkVariant(page, "granite")],
  [
    "an address without a model",
    "discover",
    async (page) => {
      await discover(page);
      await page.getByTestId("hub-query").fill("https://example.com/page.html");
      await page.getByTestId("hub-query").press("Enter");
      await toast(page);
    },
  ],
  [
    "a download that failed",
    "discover",
    async (page) => {
      await repository(page, "fails-halfway");
      await page.getByTestId("download").first().click();
      await page.getByTestId("tab-downloads").click();
      await page.getByTestId("download-problem").waitFor();
    },
  ],
  [
    "updates from a hub that is unreachable",
    "discover",
    async (page) => {
      await set(page, { unreachable: true });
      await page.getByTestId("view-models").click();
      await page.getByTestId("check-updates").click();
      await toast(page);
    },
  ],
  [
    "an update that is unknown",
    "discover",
    async (page) => {
      const problem = "{ code: 'download', reason: { area: 'models', type: 'updateNoHashes' } }";
      const source = "'hf.co/bartowski/SmolLM2-360M-Instruct-GGUF:Q8_0'";
      await page.evaluate(`void fakeHost.serverStates.set(${source}, { type: 'unknown', problem: ${problem} })`);
      await page.getByTestId("view-models").click();
      await page.getByTestId("check-updates").click();
      await page.getByTestId("update-unknown").waitFor();
    },
  ],
  ["a text that is no token", "", (page) => saveToken(page, "two words")],
  [
    "a locked keychain",
    "",
    async (page) => (await set(page, { keychain: "locked" }), await saveToken(page, "hf_secret")),
  ],
  [
    "a system without a keychain",
    "",
    async (page) => {
      await set(page, { keychain: "missing", tokenElsewhere: "file" });
      await openSettings(page, "models");
      await page.getByTestId("hub-token-source").waitFor();
    },
  ],
  [
    "a measurement during an answer",
    "slow",
    async (page) => {
      await pace(page, 5);
      await send(page, "Tell me a long story.");
      await lastAnswer(page, "streaming");
      await pace(page, Number.POSITIVE_INFINITY);
      await openSettings(page, "models");
      await page.getByTestId("measure").click();
      await page.getByTestId("measure-failed").waitFor();
    },
  ],
  [
    "a measurement that is cancelled",
    "",
    async (page) => {
      await openSettings(page, "models");
      await pace(page, 200);
      await page.getByTestId("measure").click();
      await page.getByTestId("stop-measuring").click();
      await page.getByTestId("measure-failed").waitFor();
    },
  ],
  [
    "a build that fails the check",
    "unchecked-gpu",
    async (page) => {
      await openSettings(page, "hardware");
      await page.locator("[data-testid=device-row][data-id=gpu0]").getByTestId("check-device").click();
      await page.getByTestId("backend-mismatch").waitFor();
    },
  ],
  [
    "a driver that crashed",
    "driver-crashed",
    async (page) => (await openSettings(page, "hardware"), await page.getByTestId("device-problem").waitFor()),
  ],
  [
    "a machine without a GPU",
    "no-gpu",
    async (page) => (await openSettings(page, "hardware"), await page.getByTestId("no-gpu").waitFor()),
  ],
  [
    "a device that is missing",
    "old-settings",
    async (page) => (await openSettings(page, "hardware"), await page.getByTestId("device-lost").waitFor()),
  ],
];

const training: Place[] = [
  [
    "a file that is no dataset",
    "",
    async (page) => (await tune(page), await drop(page, { type: "drop", paths: ["/x/chart.png"] }), await toast(page)),
  ],
  [
    "a dataset without examples",
    "",
    async (page) => (
      await drop(page, { type: "drop", paths: ["/home/you/empty.jsonl"] }),
      await page.getByTestId("inspection-failed").waitFor()
    ),
  ],
  [
    "a run that was interrupted",
    "",
    async (page) => (
      await tune(page),
      await page.locator("[data-testid=run][data-id='24']").getByTestId("open-run").click(),
      await page.getByTestId("run-problem").waitFor()
    ),
  ],
  [
    "a run whose worker crashed",
    "",
    async (page) => {
      await holdRun(page, "/home/you/endless.jsonl");
      await page.evaluate("fakeHost.killTrainer()");
      await pace(page, 0);
      await page.getByTestId("run-problem").waitFor();
    },
  ],
  ...["explodes", "replies"].map((name): Place => [
    `the end of a run on ${name} out of view`,
    "",
    async (page) => {
      await holdRun(page, `/home/you/${name}.jsonl`);
      await page.getByTestId("view-chat").click();
      await pace(page, 0);
      await toast(page);
    },
  ]),
  [
    "an adapter of another model",
    "",
    async (page) => {
      await page.evaluate("void (fakeHost.chooseAdapter = async () => '/x/qwen-lora.gguf')");
      await tune(page);
      await page.getByTestId("import-gguf").click();
      await toast(page);
    },
  ],
  [
    "an export to a full disk",
    "",
    async (page) => {
      await page.evaluate("void (fakeHost.chooseExportTarget = async () => '/media/full/poet.gguf')");
      await run(page, "21");
      await page.getByTestId("export").click();
      await page.getByTestId("export-write").click();
      await page.getByTestId("export-failed").waitFor();
    },
  ],
  [
    "an export that is too coarse",
    "",
    async (page) => {
      await run(page, "21");
      await page.getByTestId("export").click();
      await page.getByTestId("format-gguf").check();
      await page.getByTestId("export-kind").selectOption("Q4_0");
      await page.getByTestId("export-write").click();
      await page.locator("[data-testid=verification][data-passed=false]").waitFor();
    },
  ],
];

export const places: Place[] = [...chat, ...data, ...models, ...training];
