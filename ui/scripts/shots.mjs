// Screenshots of every view and state, light and dark: `npm run shots -- FOLDER [NAME...]`. Options:
// `--text-size 200` in percent, `--language de`, `--scheme dark`.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openPage, startBrowser } from "./browser.mjs";
import { servePage } from "./serve.mjs";

/** @typedef {import("playwright-core").Page} Page */

/** Opens the list of conversations, which a narrow window hides. @param {Page} page */
const showList = async (page) => {
  const toggle = page.getByTestId("toggle-list");
  if ((await toggle.isVisible()) && (await toggle.getAttribute("aria-expanded")) !== "true") await toggle.click();
};

/** @param {Page} page @param {string} title */
const open = async (page, title) => {
  await showList(page);
  await page.getByTestId("open-conversation").filter({ hasText: title }).click();
  await page.getByTestId("message").first().waitFor();
};

/** Opens a conversation whose messages are long. @param {Page} page */
const long = async (page) => {
  await page.evaluate(() => {
    const [question, answer] = [.../** @type {any} */ (window).fakeHost.world.conversations.values()].find(
      ({ title }) => title.startsWith("Rye bread"),
    ).messages;
    question.parts = [{ type: "text", text: "A line of a file that was pasted as a message.\n".repeat(9_000) }];
    answer.parts = [
      {
        type: "text",
        text: "A **dense** bread that is kept for a week, with `code` in its long lines, as answers have them.\n\n".repeat(
          9_000,
        ),
      },
    ];
  });
  await open(page, "Rye bread");
  await page.getByTestId("long-text").last().scrollIntoViewIfNeeded();
};

/** @param {Page} page @param {string} text */
const send = async (page, text) => {
  await page.getByTestId("composer").fill(text);
  await page.getByTestId("send").click();
};

/** @param {Page} page @param {string} state */
const answerIs = (page, state) => page.locator(`[data-role=assistant][data-state=${state}]`).last().waitFor();

/** @param {Page} page */
const tune = (page) => page.getByTestId("view-tune").click();

/** @param {Page} page @param {string} name */
const data = async (page, name) => {
  await page.evaluate("fakeHost.pace = 0");
  await page.evaluate(
    (path) => /** @type {any} */ (window).fakeHost.drop({ type: "drop", paths: [path] }),
    `/home/you/support/${name}`,
  );
  await page.getByTestId("facts").waitFor();
};

/** @param {Page} page @param {string} name */
const train = async (page, name) => {
  await data(page, name);
  await page.getByTestId("train").click();
  await page.getByTestId("run-page").waitFor();
};

/** @param {Page} page */
const discover = async (page) => {
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-discover").click();
  await page.getByTestId("catalog-model").first().waitFor();
};

/** @param {Page} page @param {string} query @param {string} [end] */
const find = async (page, query, end = "hub-status") => {
  await page.evaluate("fakeHost.pace = 0");
  await discover(page);
  await page.getByTestId("hub-query").fill(query);
  await page.getByTestId("hub-search").click();
  await page.getByTestId(end).filter({ hasText: /\S/ }).waitFor();
};

/** @param {Page} page @param {string} query */
const repository = async (page, query) => {
  await find(page, query);
  await page.getByTestId("hub-result").first().click();
  await page.getByTestId("variants").waitFor();
};

/** @param {Page} page */
const adapters = async (page) => {
  await page.evaluate("fakeHost.pace = 0");
  await page.getByTestId("view-models").click();
  await page.getByTestId("import-adapter-folder").click();
  await page.getByTestId("waiting-adapters").waitFor();
  await page.getByTestId("card-adapters").click();
};

/** @param {Page} page */
const hubAdapters = async (page) => {
  await find(page, "LoRA");
  await page.getByTestId("hub-kind").selectOption("adapters");
  await page.getByTestId("hub-adapter").first().waitFor();
};

/** @param {Page} page */
const queue = async (page) => {
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-downloads").click();
};

/** @param {Page} page @param {string} state */
const runIs = (page, state) => page.locator(`[data-testid=run-page][data-state=${state}]`).waitFor();

/** @param {Page} page @param {string} id */
const pastRun = async (page, id) => {
  await tune(page);
  await page.locator(`[data-testid=run][data-id="${id}"]`).getByTestId("open-run").click();
  await page.getByTestId("loss-chart").waitFor();
};

/** @param {Page} page */
const pair = async (page) => {
  await pastRun(page, "21");
  await page.evaluate("fakeHost.pace = 0");
  await page.getByTestId("try-it").click();
  await send(page, "My order is late, what now?");
  await page.getByTestId("vote").nth(1).waitFor();
};

/** @param {Page} page @param {string} name */
const settingsPage = async (page, name) => {
  await page.getByTestId("view-settings").click();
  await page.getByTestId(`settings-page-${name}`).click();
};

/** @param {Page} page @param {string} keychain */
const hubToken = async (page, keychain) => {
  await page.evaluate(
    (keychain) => Object.assign(/** @type {any} */ (window).fakeHost, { keychain, pace: 0 }),
    keychain,
  );
  await settingsPage(page, "models");
  await page.getByTestId("hub-token-source").waitFor();
  await page.getByTestId("hub-token").evaluate((e) => e.scrollIntoView({ block: "center" }));
};

/** @param {Page} page */
const machine = async (page) => {
  await settingsPage(page, "hardware");
  await page.getByTestId("device-row").first().waitFor();
};

/** @param {Page} page */
const plan = async (page) => {
  await machine(page);
  await settingsPage(page, "models");
  await page.getByTestId("plan-verdict").waitFor();
};

/** @param {Page} page */
const lecture = async (page) => {
  await page.evaluate("fakeHost.pace = 0");
  await send(page, "Give me the lecture.");
  await answerIs(page, "complete");
  await page.getByTestId("diagram").waitFor();
};

/** @param {Page} page */
const schema = async (page) => {
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  await page.locator("[data-testid=knob-group][data-id=schema]").getByTestId("knob-group-toggle").click();
  await page
    .getByTestId("json-schema")
    .fill('{"properties": {"capital": {"type": "string"}}, "required": ["capital"]}');
  await page.keyboard.press("Tab");
  await send(page, "What is the capital of France?");
  await answerIs(page, "complete");
};

/** A message with everything that is formatted in a user's text. @param {Page} page */
const ownMessage = async (page) => {
  await page.evaluate("fakeHost.pace = 0");
  await send(
    page,
    [
      "What is the capital of France, and why does `sum` differ from $\\sum_{i=1}^{n} x_i$?",
      "",
      "```python",
      "def sum(values):",
      "    return reduce(lambda a, b: a + b, values, 0)",
      "```",
      "",
      "| input | sum |",
      "|------:|----:|",
      "| 1, 2 | 3 |",
      "| 0.1, 0.2 | 0.30000000000000004 |",
      "",
      "Thanks!",
    ].join("\n"),
  );
  await answerIs(page, "complete");
};

/** A message that was refused and a draft, both too long for the context. @param {Page} page */
const tooLong = async (page) => {
  await page.evaluate("fakeHost.pace = 0");
  await settingsPage(page, "models");
  await page.getByTestId("context").selectOption("2048");
  await page.getByTestId("reload-model").click();
  await page.getByTestId("view-chat").click();
  await page.locator("[data-testid=model-pill][data-state=ready]").waitFor();
  await send(page, "word ".repeat(3_200));
  await answerIs(page, "failed");
  await page.getByTestId("composer").fill("word ".repeat(3_200));
  await page.getByTestId("context-warning").waitFor();
};

/** @param {Page} page @param {string[]} groups */
const advancedSettings = async (page, groups = ["length", "filters", "penalties", "xtc", "mirostat", "dynatemp"]) => {
  await open(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("chat-settings-advanced").check();
  for (const id of groups)
    await page.locator(`[data-testid=knob-group][data-id=${id}]`).getByTestId("knob-group-toggle").click();
};

/** @param {Page} page */
const settingLists = async (page) => {
  await advancedSettings(page, ["dry", "bans", "other"]);
  for (const text of ["delve", "As an AI"]) {
    await page.getByTestId("knob-bannedStrings").getByTestId("text-add").fill(text);
    await page.keyboard.press("Enter");
  }
  for (const [token, bias] of [
    [" Paris", "-1.5"],
    [" London", "ban"],
  ]) {
    await page
      .getByTestId("bias-new")
      .getByTestId("bias-token")
      .fill(token ?? "");
    await page
      .getByTestId("bias-new")
      .getByTestId("bias-amount")
      .fill(bias ?? "");
    await page.getByTestId("bias-add").click();
  }
};

/** @param {Page} page */
const presetMenu = async (page) => {
  await open(page, "Borrow checker");
  await page.getByTestId("chat-settings-toggle").click();
  await page.getByTestId("preset").selectOption({ label: "Storyteller" });
  await page.getByTestId("knob-temperature").locator("input").fill("0.7");
  await page.keyboard.press("Tab");
  await page.getByTestId("preset-menu").click();
};

const diagrams = `\`\`\`mermaid
sequenceDiagram
  participant W as Window
  participant E as Engine
  W->>+E: Load the model
  E-->>-W: Loaded
  loop every token
    E-)W: A token
    W->>W: Render
  end
  Note over W,E: One process each
\`\`\`

\`\`\`mermaid
flowchart LR
  subgraph disk [On the disk]
    G[(GGUF)] --> P[/Packed/]
  end
  subgraph gpu [On the GPU]
    P -.->|copied| K((KV)) ==> O{{Output}}
  end
  O --o R([Reply])
  O --x X>Nothing]
\`\`\`

\`\`\`mermaid
stateDiagram-v2
  [*] --> Idle
  Idle --> Loading : load
  Loading --> Ready
  state Ready {
    [*] --> Waiting
    Waiting --> Answering : message
    Answering --> Waiting : end
  }
  Loading --> [*] : failed
\`\`\`

\`\`\`mermaid
graph TD
  A["A long label that has to be broken into several lines, since it is long"] -- "with a label" --> B(Rounded)
  A --> A
  B --> C[[Sub]] & D(((Double)))
  C & D --> E{Both?}
\`\`\``;

/** @param {Page} page */
const folders = async (page) => {
  await showList(page);
  for (const toggle of await page.getByTestId("folder-toggle").all()) await toggle.click();
};

/** @param {Page} page @param {number} at @param {string} id */
const itemAction = async (page, at, id) => {
  await folders(page);
  const item = page.getByTestId("conversation").nth(at);
  await item.hover();
  await item.getByTestId("conversation-menu").click();
  await page.getByTestId(id).click();
};

/** @param {Page} page @param {string} id */
const paletteAction = async (page, id) => {
  await page.keyboard.press("Control+k");
  await page.getByTestId("palette-query").fill(id.replace("-", " "));
  await page.locator(`[data-testid=palette-item][data-id="${id}"]`).click();
};

/** @param {Page} page */
const filters = async (page) => {
  await folders(page);
  await page.getByTestId("tag").filter({ hasText: "databases" }).click();
  await page.getByTestId("toggle-filters").click();
  await page.getByTestId("filter-time").selectOption("custom");
  await page.getByTestId("filter-since").fill("2024-02-01");
  await page.getByTestId("search-hit").first().waitFor();
};

/** Each in a wide and a narrow window. */
const organizing = Object.entries(
  /** @type {Record<string, (page: Page) => Promise<unknown>>} */ ({
    folders: async (page) => {
      await folders(page);
      await page.getByTestId("open-conversation").first().hover();
    },
    "folder-drag": async (page) => {
      await folders(page);
      await page.getByTestId("open-conversation").filter({ hasText: "SQL" }).hover();
      await page.mouse.down();
      await page.getByTestId("folder-toggle").nth(1).hover();
      await page.mouse.move(260, 150);
      await page.getByTestId("folder-toggle").nth(1).hover();
    },
    "folder-thread": async (page) => {
      await folders(page);
      await open(page, "Borrow checker");
      await page.getByTestId("instructions").click();
    },
    "folder-welcome": async (page) => {
      await folders(page);
      await page.getByTestId("folder-toggle").first().hover();
      await page.getByTestId("folder-new-conversation").first().click();
    },
    "folder-name": async (page) => {
      await folders(page);
      await page.getByTestId("new-folder").click();
    },
    "folder-settings": async (page) => {
      await folders(page);
      await page.getByTestId("folder-toggle").first().hover();
      await page.getByTestId("folder-menu").first().click();
      await page.getByTestId("folder-settings").click();
    },
    "move-dialog": (page) => itemAction(page, 1, "move"),
    "tags-dialog": (page) => itemAction(page, 1, "edit-tags"),
    filters,
    "prompt-menu": async (page) => {
      await page.getByTestId("composer").pressSequentially("/");
      await page.getByTestId("prompt-menu").waitFor();
    },
    "prompt-variables": async (page) => {
      await page.getByTestId("composer").pressSequentially("/code");
      await page.keyboard.press("Enter");
      await page.getByTestId("variable").first().fill("Rust");
    },
    prompts: (page) => paletteAction(page, "saved-prompts"),
    "prompt-editor": async (page) => {
      await paletteAction(page, "saved-prompts");
      await page.getByTestId("prompt-edit").first().click();
    },
  }),
).flatMap(([name, act]) => [
  { name, scene: "organized", act },
  { name: `${name}-narrow`, scene: "organized", width: 480, height: 620, act },
]);

/** @type {{ name: string, scene?: string, width?: number, height?: number, act: (page: Page) => Promise<unknown> }[]} */
const pictures = [
  { name: "welcome", act: async () => {} },
  { name: "welcome-fresh", scene: "fresh", act: async () => {} },
  { name: "no-model", scene: "no-model", act: async () => {} },
  { name: "thread", act: (page) => open(page, "Borrow checker") },
  {
    name: "drafted",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await send(page, "Repeat after me: what is the capital of France?");
      await answerIs(page, "complete");
    },
  },
  {
    name: "parts",
    scene: "parts",
    act: async (page) => {
      await open(page, "Sales by quarter");
      await page.getByTestId("thought-toggle").first().click();
      await page.getByTestId("part-toggle").first().click();
    },
  },
  {
    name: "thinking",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 90");
      await send(page, "Think: what is the capital of France?");
      await page.getByTestId("thought").getByText("So:").waitFor();
      await page.evaluate("fakeHost.pace = 60000");
    },
  },
  { name: "markdown", height: 1240, act: (page) => open(page, "Everything markdown") },
  { name: "lecture", height: 2100, act: lecture },
  { name: "lecture-narrow", width: 720, height: 2100, act: lecture },
  {
    name: "lecture-folded",
    height: 1500,
    act: async (page) => {
      await lecture(page);
      await open(page, "Letter");
      await open(page, "Give me the lecture");
      await page.getByTestId("diagram").waitFor();
    },
  },
  {
    name: "diagrams",
    height: 1900,
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await send(page, `Say: ${diagrams}`);
      await answerIs(page, "complete");
      await page.getByTestId("diagram").nth(3).waitFor();
    },
  },
  { name: "own-message", act: ownMessage },
  {
    name: "own-message-folded",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await send(
        page,
        `What is the capital of France?\n${"A line of a log that was typed into a message.\n".repeat(60)}`,
      );
      await answerIs(page, "complete");
      await page.getByTestId("fold-message").scrollIntoViewIfNeeded();
    },
  },
  { name: "too-long", act: tooLong },
  {
    name: "long-paste",
    act: async (page) => {
      await page.evaluate(() => {
        const clipboard = new DataTransfer();
        clipboard.setData("text/plain", "line\n".repeat(300));
        document
          .querySelector("[data-testid=composer]")
          ?.dispatchEvent(new ClipboardEvent("paste", { clipboardData: clipboard, bubbles: true, cancelable: true }));
      });
      await page.getByTestId("toast").waitFor();
    },
  },
  {
    name: "answer-menu",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("message-menu").last().click();
    },
  },
  {
    name: "context-menu",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.locator("[data-role=assistant] h2").last().click({ button: "right" });
      await page.getByTestId("details").waitFor();
    },
  },
  {
    name: "context-menu-conversation",
    act: async (page) => {
      await showList(page);
      await page.getByTestId("open-conversation").nth(2).click({ button: "right" });
      await page.getByTestId("menu-rename").waitFor();
    },
  },
  {
    name: "context-menu-model",
    act: async (page) => {
      await page.getByTestId("view-models").click();
      await page
        .getByTestId("model-card")
        .last()
        .click({ button: "right", position: { x: 4, y: 4 } });
      await page.getByTestId("menu-copy-path").waitFor();
    },
  },
  {
    name: "tooltip",
    act: async (page) => {
      await page.getByTestId("chat-settings-toggle").hover();
      await page.getByTestId("tooltip").waitFor();
    },
  },
  {
    name: "find",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.keyboard.press("Control+f");
      await page.keyboard.type("borrow");
    },
  },
  {
    name: "find-narrow",
    width: 720,
    height: 520,
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.keyboard.press("Control+f");
      await page.keyboard.type("borrow");
    },
  },
  { name: "hostile", act: (page) => open(page, "A page that tries") },
  {
    name: "streaming",
    scene: "slow",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 12");
      await send(page, "Why can't I push to a Vec while iterating?");
      await page.waitForFunction(
        () => (document.querySelector("[data-role=assistant] .markdown")?.textContent ?? "").length > 260,
      );
      await page.evaluate("fakeHost.pace = 60000");
    },
  },
  { name: "waiting-loading", scene: "loading", act: (page) => send(page, "Hello?") },
  {
    name: "reading",
    scene: "slow",
    act: async (page) => {
      await send(page, "Hello?");
      await answerIs(page, "prefill");
      await page.evaluate("fakeHost.pace = 60000");
      await page.waitForTimeout(1000);
    },
  },
  {
    name: "stopped",
    act: async (page) => {
      await send(page, "Tell me a long story.");
      await answerIs(page, "streaming");
      await page.waitForTimeout(900);
      await page.getByTestId("stop").click();
      await answerIs(page, "stopped");
    },
  },
  {
    name: "cut",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await send(page, "Cut this short, older messages and all.");
      await answerIs(page, "truncated");
    },
  },
  {
    name: "failed",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await send(page, "This fails.");
      await answerIs(page, "failed");
    },
  },
  {
    name: "worker-died",
    act: async (page) => {
      await send(page, "Tell me a long story.");
      await answerIs(page, "streaming");
      await page.waitForTimeout(600);
      await page.evaluate("fakeHost.killWorker()");
      await answerIs(page, "failed");
    },
  },
  { name: "model-failed", scene: "failed", act: async () => {} },
  {
    name: "search",
    act: async (page) => {
      await page.getByTestId("search").fill("the");
      await page.getByTestId("search-hit").first().waitFor();
    },
  },
  {
    name: "deleted",
    act: async (page) => {
      const item = page.getByTestId("conversation").nth(2);
      await item.hover();
      await item.getByTestId("delete").click();
      await page.getByTestId("toast").waitFor();
    },
  },
  {
    name: "rename",
    act: async (page) => {
      await open(page, "Letter");
      const item = page.getByTestId("conversation").nth(2);
      await item.hover();
      await item.getByTestId("rename").click();
    },
  },
  {
    name: "edit",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("edit").first().click();
    },
  },
  {
    name: "edit-answer",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("edit-answer").click();
    },
  },
  {
    name: "repeats",
    scene: "fresh",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 3");
      await send(page, "Loop for a while.");
      await page.getByTestId("repeats").waitFor();
      await page.evaluate("fakeHost.pace = 60000");
    },
  },
  {
    name: "ended-loop",
    scene: "fresh",
    act: async (page) => {
      await send(page, "This ends in a loop.");
      await answerIs(page, "truncated");
    },
  },
  {
    name: "answer-details",
    height: 900,
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("message-menu").last().click();
      await page.getByTestId("details").click();
    },
  },
  {
    name: "chat-settings",
    scene: "thinks",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("chat-settings-toggle").click();
    },
  },
  {
    name: "chat-settings-advanced",
    height: 1900,
    act: async (page) => {
      await advancedSettings(page);
      await page.getByTestId("knob-topP").locator("input").fill("2");
      await page.getByTestId("knob-temperature").locator("input").fill("0.7");
      await page.keyboard.press("Tab");
    },
  },
  { name: "chat-settings-lists", height: 1500, act: settingLists },
  { name: "chat-settings-schema", scene: "fresh", height: 1100, act: schema },
  {
    name: "chat-settings-folded",
    height: 700,
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("chat-settings-advanced").check();
    },
  },
  {
    name: "model-defaults",
    height: 900,
    act: async (page) => {
      await advancedSettings(page, ["xtc"]);
      await page.getByTestId("knob-xtcProbability").locator("input").fill("0.5");
      await page.keyboard.press("Tab");
      await page.getByTestId("make-defaults").click();
      await page.getByTestId("forget-defaults").scrollIntoViewIfNeeded();
    },
  },
  { name: "presets", scene: "presets", height: 900, act: presetMenu },
  {
    name: "preset-name",
    scene: "presets",
    height: 900,
    act: async (page) => {
      await presetMenu(page);
      await page.getByTestId("preset-save").click();
    },
  },
  {
    name: "preset-small",
    scene: "presets",
    width: 480,
    height: 620,
    act: async (page) => {
      await page.getByTestId("chat-settings-toggle").click();
      await page.getByTestId("preset").selectOption({ label: "Storyteller" });
    },
  },
  {
    name: "chat-settings-small",
    scene: "thinks",
    width: 720,
    height: 520,
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("chat-settings-toggle").click();
    },
  },
  { name: "picker", act: (page) => page.getByTestId("model-pill").click() },
  {
    name: "instructions",
    act: async (page) => {
      await open(page, "Letter");
      await page.getByTestId("instructions").click();
    },
  },
  {
    name: "jump",
    act: async (page) => {
      await open(page, "Everything markdown");
      await page.getByTestId("thread").focus();
      await page.keyboard.press("Home");
      await page.getByTestId("jump-to-latest").waitFor();
    },
  },
  { name: "small-window", width: 720, height: 520, act: (page) => open(page, "Borrow checker") },
  { name: "small-welcome", width: 720, height: 520, act: async () => {} },
  { name: "tune", height: 1180, act: tune },
  { name: "tune-fresh", scene: "fresh", act: tune },
  {
    name: "unseen-runs",
    act: async (page) => {
      await tune(page);
      await page.evaluate("fakeHost.unsee(21), fakeHost.unsee(23), fakeHost.unsee(24)");
      await page.getByTestId("unseen-run").nth(2).waitFor();
    },
  },
  {
    name: "tune-drag",
    act: (page) => page.evaluate(() => /** @type {any} */ (window).fakeHost.drop({ type: "over", paths: ["x"] })),
  },
  { name: "tune-data", height: 1100, act: (page) => data(page, "replies.jsonl") },
  {
    name: "tune-data-cut",
    height: 1100,
    act: async (page) => {
      await data(page, "replies.jsonl");
      await page.getByTestId("preview-next").click();
      await page.getByTestId("preview-next").click();
    },
  },
  { name: "tune-mapping", height: 1100, act: (page) => data(page, "recipes.csv") },
  { name: "tune-broken", height: 1360, act: (page) => data(page, "broken.jsonl") },
  {
    name: "tune-unreadable",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await page.evaluate(() =>
        /** @type {any} */ (window).fakeHost.drop({ type: "drop", paths: ["/home/you/empty.jsonl"] }),
      );
      await page.getByTestId("inspection-failed").waitFor();
    },
  },
  {
    name: "tune-advanced",
    height: 1900,
    act: async (page) => {
      await data(page, "replies.jsonl");
      await page.getByTestId("advanced").click();
      await page.getByTestId("setting-rank").locator("input").fill("32");
      await page.getByTestId("setting-epochs").locator("input").fill("none");
      await page.keyboard.press("Tab");
    },
  },
  {
    name: "run-preparing",
    act: async (page) => {
      await data(page, "replies.jsonl");
      await page.evaluate("fakeHost.pace = 60000");
      await page.getByTestId("train").click();
      await runIs(page, "preparing");
    },
  },
  {
    name: "run-training",
    height: 900,
    act: async (page) => {
      await data(page, "replies.jsonl");
      await page.evaluate("fakeHost.pace = 25");
      await page.getByTestId("train").click();
      await page.waitForFunction(
        () => Number(document.querySelector("[data-testid=run-tiles] dd")?.textContent?.split("o")[0]) >= 38,
      );
      await page.evaluate("fakeHost.pace = 60000");
      await page.waitForTimeout(300);
      await page.getByTestId("loss-chart").hover({ position: { x: 200, y: 90 } });
    },
  },
  {
    name: "run-paused-by-chat",
    height: 900,
    act: async (page) => {
      await train(page, "endless.jsonl");
      await page.evaluate("fakeHost.pace = 4");
      await runIs(page, "running");
      await page.waitForTimeout(400);
      await page.evaluate("fakeHost.send(null, null, 'Tell me a long story.')");
      await runIs(page, "paused");
    },
  },
  {
    name: "run-pausing",
    height: 900,
    act: async (page) => {
      await train(page, "endless.jsonl");
      await page.evaluate("fakeHost.pace = 4");
      await runIs(page, "running");
      await page.waitForTimeout(400);
      await page.evaluate("fakeHost.pace = Infinity");
      await page.getByTestId("pause-run").click();
      await page.getByTestId("pending").waitFor();
    },
  },
  {
    name: "run-closing",
    height: 900,
    act: async (page) => {
      await train(page, "replies.jsonl");
      await page.evaluate("fakeHost.runs().then((runs) => fakeHost.close(runs[0].id))");
      await page.getByTestId("closing").waitFor();
    },
  },
  {
    name: "store-held",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.evaluate("fakeHost.lockStore(true)");
      await page.getByTestId("toast").waitFor();
    },
  },
  { name: "run-finished", height: 1180, act: (page) => pastRun(page, "21") },
  // The picture docs/images/tune-*.png of the README. Its pictures of the chat are screenshots of
  // the window tests.
  { name: "readme-tune", width: 1120, act: (page) => pastRun(page, "21") },
  {
    name: "run-table",
    height: 1180,
    act: async (page) => {
      await pastRun(page, "21");
      await page.getByTestId("as-table").click();
    },
  },
  { name: "run-forgetful", height: 1180, act: (page) => pastRun(page, "22") },
  { name: "run-failed", height: 900, act: (page) => pastRun(page, "23") },
  { name: "run-interrupted", height: 900, act: (page) => pastRun(page, "24") },
  { name: "run-small-window", width: 720, height: 520, act: (page) => pastRun(page, "21") },
  {
    name: "export-small",
    width: 720,
    height: 520,
    act: async (page) => {
      await pastRun(page, "21");
      await page.getByTestId("export").click();
      await page.getByTestId("format-gguf").check();
      await page.getByTestId("export-kind").selectOption("IQ4_XS");
    },
  },
  {
    name: "export",
    act: async (page) => {
      await pastRun(page, "21");
      await page.getByTestId("export").click();
      await page.getByTestId("format-gguf").check();
    },
  },
  {
    name: "export-progress",
    act: async (page) => {
      await pastRun(page, "21");
      await page.getByTestId("export").click();
      await page.evaluate("fakeHost.pace = Infinity");
      await page.getByTestId("format-gguf").check();
      await page.getByTestId("export-write").click();
      await page.getByTestId("export-cancel").waitFor();
    },
  },
  {
    name: "export-merged",
    act: async (page) => {
      await pastRun(page, "21");
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("export").click();
      await page.getByTestId("format-gguf").check();
      await page.getByTestId("export-write").click();
      await page.getByTestId("export-show").waitFor();
    },
  },
  {
    name: "export-passed",
    act: async (page) => {
      await pastRun(page, "21");
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("export").click();
      await page.getByTestId("export-write").click();
      await page.getByTestId("verification").waitFor();
    },
  },
  {
    name: "export-not-passed",
    act: async (page) => {
      await pastRun(page, "21");
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("export").click();
      await page.getByTestId("format-gguf").check();
      await page.getByTestId("export-kind").selectOption("Q4_0");
      await page.getByTestId("export-write").click();
      await page.getByTestId("verification").waitFor();
    },
  },
  {
    name: "try-it",
    act: async (page) => {
      await pastRun(page, "21");
      await page.getByTestId("try-it").click();
      await page.getByTestId("welcome").waitFor();
    },
  },
  { name: "compare-blind", act: pair },
  {
    name: "compare-voted",
    act: async (page) => {
      await pair(page);
      await page.getByTestId("vote").first().click();
      await page.getByTestId("voted").waitFor();
    },
  },
  {
    name: "compare-narrow",
    width: 760,
    height: 900,
    act: async (page) => {
      await pair(page);
      await page.getByTestId("reveal").click();
    },
  },
  {
    name: "compare-loading",
    act: async (page) => {
      await page.getByTestId("compare").click();
      await page.getByTestId("contender-add").click();
      await page.evaluate("fakeHost.pace = 150");
      await send(page, "What is the capital of France?");
      await page.locator("[data-state=loading]").waitFor();
      await page.waitForTimeout(1500);
    },
  },
  {
    name: "compare-four",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("new-conversation").click();
      await page.getByTestId("compare").click();
      await page.getByTestId("contender-add").click();
      await page.getByTestId("contender-add").click();
      await send(page, "What is the capital of France?");
      await page.getByTestId("vote").nth(3).waitFor();
      await page.getByTestId("contender").nth(2).click();
    },
  },
  {
    name: "adapters",
    act: async (page) => {
      await pair(page);
      await page.getByTestId("adapter-pill").click();
      await page.getByTestId("adapter-on").nth(1).check();
    },
  },
  {
    name: "rated",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("thumb-up").last().click();
    },
  },
  {
    name: "correct",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.getByTestId("message-menu").last().click();
      await page.getByTestId("correct").click();
    },
  },
  { name: "models", act: (page) => page.getByTestId("view-models").click() },
  {
    name: "models-many",
    scene: "discover",
    height: 1300,
    act: async (page) => {
      await page.getByTestId("view-models").click();
      await page.getByTestId("card-details").nth(3).click();
      await page.getByTestId("card-fit").nth(5).waitFor();
    },
  },
  {
    name: "models-many-narrow",
    scene: "discover",
    width: 480,
    height: 1300,
    act: async (page) => {
      await page.getByTestId("view-models").click();
      await page.getByTestId("card-fit").nth(5).waitFor();
    },
  },
  {
    name: "models-remove",
    scene: "discover",
    act: async (page) => {
      await page.getByTestId("view-models").click();
      await page.getByTestId("card-remove").nth(1).click();
      await page.getByTestId("remove-dialog").waitFor();
    },
  },
  { name: "models-none", scene: "no-model", act: (page) => page.getByTestId("view-models").click() },
  { name: "models-adapters", height: 1250, act: adapters },
  { name: "models-adapters-narrow", width: 480, height: 1500, act: adapters },
  {
    name: "models-adapter-delete",
    act: async (page) => {
      await adapters(page);
      await page.getByTestId("adapter-delete").first().click();
    },
  },
  { name: "discover-adapters", act: hubAdapters },
  { name: "discover-adapters-narrow", width: 480, height: 900, act: hubAdapters },
  {
    name: "repository-original",
    act: async (page) => {
      await find(page, "Qwen3-4B");
      await page.getByTestId("hub-kind").selectOption("originals");
      await page.locator("[data-testid=hub-result][data-id='Qwen/Qwen3-4B-Instruct-2507']").click();
      await page.getByTestId("conversions").waitFor();
    },
  },
  {
    name: "repository-adapter",
    act: async (page) => {
      await hubAdapters(page);
      await page.getByTestId("hub-result").first().click();
      await page.getByTestId("variant-adapter").waitFor();
    },
  },
  { name: "long-message", act: long },
  {
    name: "long-message-find",
    width: 820,
    act: async (page) => {
      await long(page);
      await page.keyboard.press("Control+f");
      await page.getByTestId("find-text").fill("dense");
      await page.getByTestId("find-partial").waitFor();
    },
  },
  {
    name: "restart-dialog",
    act: async (page) => {
      await page.evaluate("fakeHost.update()");
      await open(page, "Rye bread");
      await page.getByTestId("edit").last().focus();
      await page.getByTestId("edit").last().click();
      await page.getByTestId("edit-text").fill("A better question");
      await page.getByTestId("restart").click();
      await page.getByTestId("restart-dialog").waitFor();
    },
  },
  { name: "discover", scene: "discover", height: 1000, act: discover },
  { name: "discover-measured", scene: "two-gpus", height: 1000, act: discover },
  { name: "discover-narrow", scene: "discover", width: 480, height: 1500, act: discover },
  { name: "discover-offline", scene: "offline", act: discover },
  {
    name: "discover-results",
    scene: "discover",
    height: 1150,
    act: async (page) => {
      await find(page, "");
      await page.getByTestId("only-supported").uncheck();
    },
  },
  {
    name: "discover-results-narrow",
    scene: "discover",
    width: 480,
    height: 1500,
    act: async (page) => {
      await find(page, "");
      await page.getByTestId("only-supported").uncheck();
    },
  },
  {
    name: "discover-searching",
    scene: "discover",
    act: async (page) => {
      await discover(page);
      await page.evaluate("fakeHost.pace = 60000");
      await page.getByTestId("hub-query").fill("gemma");
      await page.getByTestId("hub-search").click();
      await page.getByTestId("hub-loading").waitFor();
    },
  },
  { name: "discover-nothing", scene: "discover", act: (page) => find(page, "no such thing") },
  {
    name: "discover-failed",
    scene: "discover",
    act: async (page) => {
      await page.evaluate("fakeHost.unreachable = true");
      await find(page, "gemma", "hub-failed");
    },
  },
  {
    name: "discover-address",
    scene: "discover",
    act: async (page) => {
      await discover(page);
      await page.getByTestId("hub-query").fill("hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M");
    },
  },
  {
    name: "repository",
    scene: "discover",
    height: 1050,
    act: async (page) => {
      await repository(page, "qwen3-4b");
      await page.getByTestId("check-variant").nth(8).click();
      await page.getByTestId("checked-verdict").waitFor();
    },
  },
  {
    name: "repository-narrow",
    scene: "discover",
    width: 480,
    height: 1150,
    act: async (page) => {
      await repository(page, "qwen3-4b");
      await page.getByTestId("check-variant").nth(5).click();
      await page.getByTestId("checked-verdict").waitFor();
    },
  },
  { name: "repository-split", scene: "discover", height: 900, act: (page) => repository(page, "70b") },
  {
    name: "repository-gated",
    scene: "discover",
    act: async (page) => {
      await repository(page, "qat");
      await page.getByTestId("check-variant").click();
      await page.getByTestId("check-variant-failed").waitFor();
    },
  },
  { name: "repository-long", scene: "discover", width: 720, height: 900, act: (page) => repository(page, "merge-lab") },
  { name: "downloads", scene: "downloads", height: 900, act: queue },
  { name: "downloads-narrow", scene: "downloads", width: 480, height: 1150, act: queue },
  { name: "downloads-none", act: queue },
  {
    name: "downloads-ready",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await page.evaluate("fakeHost.startDownload('gemma-3-1b-it')");
      await page.getByTestId("toast").waitFor();
    },
  },
  {
    name: "link-dropped",
    act: async (page) => {
      await page.evaluate(() => {
        const data = new DataTransfer();
        data.setData("text/plain", "hf.co/unsloth/Qwen3-0.6B-GGUF");
        document
          .querySelector("nav")
          ?.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
      });
      await page.getByTestId("link-dialog").waitFor();
    },
  },
  { name: "first-run", scene: "first-run", height: 860, act: (page) => page.getByTestId("first-models").waitFor() },
  {
    name: "first-run-narrow",
    scene: "first-run",
    width: 480,
    height: 1250,
    act: (page) => page.getByTestId("first-models").waitFor(),
  },
  {
    name: "model-sources",
    height: 900,
    act: async (page) => {
      await page.getByTestId("view-settings").click();
      await page.getByTestId("add-folder").click();
      await page.getByTestId("model-folder").waitFor();
      await page.getByTestId("hub-endpoint").fill("http://example.com");
      await page.keyboard.press("Tab");
      await page.getByTestId("model-sources").evaluate((e) => e.scrollIntoView({ block: "center" }));
    },
  },
  {
    name: "models-verdicts",
    scene: "too-big",
    height: 900,
    act: async (page) => {
      await page.getByTestId("view-models").click();
      await page.getByTestId("card-fit").nth(2).waitFor();
    },
  },
  { name: "hub-token", height: 900, act: (page) => hubToken(page, "saved") },
  {
    name: "hub-token-wrong",
    width: 480,
    height: 900,
    act: async (page) => {
      await hubToken(page, "empty");
      await page.getByTestId("hub-token-field").fill("two words");
      await page.getByTestId("hub-token-save").click();
      await page.getByTestId("hub-token-problem").filter({ hasText: "no token" }).waitFor();
    },
  },
  { name: "hub-token-missing", height: 900, act: (page) => hubToken(page, "missing") },
  { name: "settings", act: (page) => settingsPage(page, "general") },
  ...["chat", "data", "shortcuts", "about"].map((name) => ({
    name: `settings-${name}`,
    act: (/** @type {Page} */ page) => settingsPage(page, name),
  })),
  { name: "settings-models", height: 1000, act: plan },
  { name: "settings-hardware", height: 900, act: machine },
  { name: "settings-no-gpu", scene: "no-gpu", height: 1240, act: machine },
  { name: "settings-software-gpu", scene: "software-gpu", height: 1240, act: machine },
  { name: "settings-two-gpus", scene: "two-gpus", height: 1240, act: machine },
  {
    name: "settings-slider",
    scene: "two-gpus",
    height: 1100,
    act: async (page) => {
      await plan(page);
      await page.getByTestId("layers").fill("12");
      await page.getByTestId("context").selectOption("32768");
      await page.getByTestId("reload-model").waitFor();
    },
  },
  {
    name: "settings-too-big",
    scene: "too-big",
    height: 1100,
    act: async (page) => {
      await plan(page);
      await page.getByTestId("layers").fill("20");
    },
  },
  { name: "settings-driver-crashed", scene: "driver-crashed", height: 1240, act: machine },
  { name: "settings-wrong-gpu", scene: "wrong-gpu", height: 1240, act: machine },
  { name: "settings-unchecked-gpu", scene: "unchecked-gpu", height: 1240, act: machine },
  {
    name: "settings-checking",
    scene: "unchecked-gpu",
    height: 1240,
    act: async (page) => {
      await machine(page);
      await page.evaluate("fakeHost.pace = 60000");
      await page.getByTestId("check-device").nth(1).click();
    },
  },
  {
    name: "settings-checked",
    scene: "unchecked-gpu",
    height: 1240,
    act: async (page) => {
      await machine(page);
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("check-device").nth(1).click();
      await page.getByTestId("backend-mismatch").waitFor();
    },
  },
  {
    name: "settings-build",
    scene: "two-gpus",
    height: 1240,
    act: async (page) => {
      await machine(page);
      await page.getByTestId("build-vulkan").check();
    },
  },
  {
    name: "settings-check-failed",
    scene: "software-gpu",
    height: 1240,
    act: async (page) => {
      await machine(page);
      await page.getByTestId("use-for-chat").nth(1).click();
      await page.evaluate(
        "fakeHost.checkDevice = () => Promise.reject({ code: 'workerDied', reason: { area: 'worker', type: 'killed' } })",
      );
      await page.getByTestId("check-device").nth(1).click();
      await page.getByTestId("check-failed").waitFor();
    },
  },
  { name: "settings-old", scene: "old-settings", height: 1240, act: machine },
  {
    name: "settings-waiting",
    scene: "slow",
    height: 760,
    act: async (page) => {
      await settingsPage(page, "models");
      await page.getByTestId("plan-waiting").waitFor();
    },
  },
  {
    name: "settings-no-model",
    scene: "no-model",
    height: 760,
    act: async (page) => {
      await settingsPage(page, "models");
      await page.getByTestId("plan-none").waitFor();
    },
  },
  {
    name: "settings-measured",
    scene: "two-gpus",
    height: 1100,
    act: async (page) => {
      await plan(page);
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("measure").click();
      await page.getByTestId("measurements").waitFor();
      await page.getByTestId("threads").fill("4");
      await page.getByTestId("layers").fill("12");
      await page.getByTestId("reload-model").click();
      await page.getByTestId("reload-model").waitFor({ state: "detached" });
      await page.waitForTimeout(500);
      await page.getByTestId("measure").click();
      await page.waitForTimeout(500);
      await page.evaluate("fakeHost.pace = 200");
      await page.getByTestId("measure").click();
      await page.waitForTimeout(1500);
    },
  },
  {
    name: "settings-draft",
    scene: "drafts",
    height: 1100,
    act: async (page) => {
      await plan(page);
      await page.getByTestId("draft").selectOption("model:qwen3-draft-120m");
      await page.locator("[data-part=draft]").waitFor();
    },
  },
  {
    name: "settings-draft-lost",
    scene: "drafts",
    height: 1100,
    act: async (page) => {
      await plan(page);
      await page.getByTestId("draft").selectOption("model:qwen3-draft-120m");
      await page.evaluate("fakeHost.removeModel('qwen3-draft-120m')");
      await page.getByTestId("draft-problem").waitFor();
    },
  },
  {
    name: "models-template",
    act: async (page) => {
      await page.getByTestId("view-models").click();
      await page.getByTestId("card-details").first().click();
      await page.getByTestId("card-template").first().click();
      await page.getByTestId("template-text").waitFor();
    },
  },
  { name: "models-drafts", scene: "drafts", height: 1000, act: (page) => page.getByTestId("view-models").click() },
  {
    name: "settings-clear",
    act: async (page) => {
      await settingsPage(page, "data");
      await page.getByTestId("clear-cache").first().click();
      await page.getByTestId("clear-dialog").waitFor();
    },
  },
  {
    name: "palette",
    act: async (page) => {
      await open(page, "Borrow checker");
      await page.keyboard.press("Control+k");
      await page.getByTestId("palette").waitFor();
    },
  },
  {
    name: "palette-found",
    act: async (page) => {
      await page.keyboard.press("Control+k");
      await page.keyboard.type("mo");
    },
  },
  {
    name: "palette-none",
    act: async (page) => {
      await page.keyboard.press("Control+k");
      await page.keyboard.type("no such thing");
    },
  },
  {
    name: "shortcut-conflict",
    act: async (page) => {
      await settingsPage(page, "shortcuts");
      const row = page.locator("[data-testid=shortcut][data-id=search]");
      await row.getByTestId("change-key").click();
      await page.keyboard.press("Control+n");
      await row.getByTestId("key-conflict").waitFor();
      await page.locator("[data-testid=shortcut][data-id=write]").getByTestId("change-key").click();
    },
  },
  ...["thread", "settings"].map((name) => ({
    name: `contrast-${name}`,
    act: async (/** @type {Page} */ page) => {
      await settingsPage(page, "general");
      await page.getByTestId("contrast-more").check();
      if (name === "thread") {
        await page.getByTestId("view-chat").click();
        await open(page, "Borrow checker");
      }
    },
  })),
  {
    name: "large-thread",
    width: 590,
    height: 380,
    act: async (page) => {
      await page.getByTestId("toggle-list").click();
      await open(page, "Borrow checker");
    },
  },
  { name: "large-list", width: 590, height: 380, act: (page) => page.getByTestId("toggle-list").click() },
  { name: "large-settings", width: 590, height: 380, act: (page) => settingsPage(page, "general") },
  {
    name: "largest-thread",
    width: 360,
    height: 260,
    act: async (page) => {
      await page.getByTestId("toggle-list").click();
      await open(page, "Borrow checker");
    },
  },
  { name: "settings-narrow", width: 640, height: 760, act: (page) => settingsPage(page, "general") },
  { name: "settings-hardware-narrow", scene: "two-gpus", width: 640, height: 1700, act: machine },
  { name: "settings-models-narrow", scene: "two-gpus", width: 640, height: 1300, act: plan },
  {
    name: "settings-clear",
    act: async (page) => {
      await machine(page);
      await page.getByTestId("clear-cache").first().click();
      await page.getByTestId("clear-dialog").waitFor();
    },
  },
  {
    name: "data",
    act: async (page) => {
      await machine(page);
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("import-file").click();
      await page.getByTestId("import-report").waitFor();
      await page.getByTestId("restore-backup").click();
      await page.getByTestId("restore-confirm").click();
      await page.getByTestId("restore-pending").scrollIntoViewIfNeeded();
    },
  },
  {
    name: "data-move",
    act: async (page) => {
      await settingsPage(page, "data");
      await page.getByTestId("move-data").click();
      await page.getByTestId("move-confirm").click();
      await page.getByTestId("former-data").waitFor();
      await page.getByTestId("delete-former").scrollIntoViewIfNeeded();
    },
  },
  {
    name: "queue",
    act: async (page) => {
      await send(page, "Tell me a long story.");
      await page.getByText("Paragraph 2.").waitFor();
      for (const text of [
        "What is the capital of France?",
        "And which cities are close to it, if I have a week and want to go by train?",
      ]) {
        await page.getByTestId("composer").fill(text);
        await page.keyboard.press("Enter");
      }
      await page.getByTestId("composer").fill("One more thing");
    },
  },
  {
    name: "data-move-dialog",
    act: async (page) => {
      await settingsPage(page, "data");
      await page.getByTestId("move-data").click();
      await page.getByTestId("move-dialog").waitFor();
    },
  },
  { name: "link", scene: "link", act: (page) => page.getByTestId("link-place").waitFor() },
  {
    name: "link-checked",
    scene: "link",
    act: async (page) => {
      await page.evaluate("fakeHost.pace = 0");
      await page.getByTestId("link-agree").click();
      await page.getByTestId("checked-verdict").waitFor();
    },
  },
  {
    name: "link-conversation",
    act: async (page) => {
      await page.evaluate(
        "fakeHost.openLinks({ type: 'conversation', id: 4 }, { type: 'conversation', id: 5 }, { type: 'refused', reason: 'hiddenCharacters' })",
      );
      await page.getByTestId("opened-link").waitFor();
    },
  },
  {
    name: "data-narrow",
    width: 720,
    height: 520,
    act: async (page) => {
      await machine(page);
      await page.getByTestId("data-settings").scrollIntoViewIfNeeded();
    },
  },
  {
    name: "conversation-menu",
    act: async (page) => {
      const item = page.getByTestId("conversation").nth(2);
      await item.hover();
      await item.getByTestId("conversation-menu").click();
      await page.getByTestId("pin").first().waitFor();
    },
  },
  ...organizing,
  {
    name: "bin",
    act: async (page) => {
      const item = page.getByTestId("conversation").nth(2);
      await item.hover();
      await item.getByTestId("delete").click();
      await page.getByTestId("open-bin").click();
      await page.getByTestId("binned").waitFor();
    },
  },
];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    "text-size": { type: "string", default: "100" },
    language: { type: "string" },
    scheme: { type: "string" },
  },
});
const [folder, ...only] = positionals;
const textSize = Number(values["text-size"]);
if (!folder || !(textSize > 0)) {
  console.error(
    "Usage: npm run shots -- FOLDER [NAME...] [--text-size PERCENT] [--language LANGUAGE] [--scheme light|dark]",
  );
  process.exit(2);
}
const { language } = values;
const schemes = /** @type {const} */ (["light", "dark"]).filter((scheme) => (values.scheme ?? scheme) === scheme);
const suffix = [...(language ? [language] : []), ...(textSize === 100 ? [] : [`${textSize}`])]
  .map((x) => `-${x}`)
  .join("");
mkdirSync(folder, { recursive: true });
const server = await servePage();
const browser = await startBrowser();
for (const { name, act, ...window } of pictures) {
  if (only.length > 0 && !only.includes(name)) continue;
  for (const scheme of schemes) {
    const { page, errors, close } = await openPage(browser, server.address, { ...window, scheme, textSize, language });
    try {
      await act(page);
      await page.waitForTimeout(250);
      await page.screenshot({ path: join(folder, `${name}-${scheme}${suffix}.png`) });
    } catch (error) {
      errors.push(String(error));
    }
    if (errors.length > 0) {
      console.error(`${name}: ${errors.join("; ")}`);
      process.exitCode = 1;
    }
    await close();
  }
  console.log(name);
}
await browser.close();
await server.close();
