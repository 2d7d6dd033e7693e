// The places of the conversation, its settings and the command palette.

import { answers, inMenu, lastAnswer, openConversation, openSettings, pace, send } from "../window";
import type { Place } from "./place";

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
  [
    "an answer that failed",
    "",
    async (page) => (await send(page, "This one fails."), await lastAnswer(page, "failed")),
  ],
  [
    "messages that are too long",
    "",
    async (page) => {
      await openSettings(page, "models");
      await page.getByTestId("context").selectOption("2048");
      await page.getByTestId("reload-model").click();
      await page.getByTestId("view-chat").click();
      await page.locator("[data-testid=model-pill][data-state=ready]").waitFor();
      await send(page, "word ".repeat(3_200));
      await lastAnswer(page, "failed");
      await page.getByTestId("composer").fill("word ".repeat(3_200));
      await page.getByTestId("context-warning").waitFor();
    },
  ],
  [
    "a message with code that is folded",
    "",
    async (page) => {
      await send(
        page,
        `What is the capital of France? \`$x$\` $x^2$\n\na | b\n--|--\n1 | 2\n\`\`\`js\n${"let a;\n".repeat(40)}`,
      );
      await lastAnswer(page, "complete");
      await page.getByTestId("fold-message").waitFor();
    },
  ],
  [
    "a long pasted text",
    "",
    async (page) => {
      await page.evaluate(() => {
        const clipboard = new DataTransfer();
        clipboard.setData("text/plain", "line\n".repeat(300));
        document
          .querySelector("[data-testid=composer]")
          ?.dispatchEvent(new ClipboardEvent("paste", { clipboardData: clipboard, bubbles: true, cancelable: true }));
      });
      await page.getByTestId("toast").waitFor();
    },
  ],
  [
    "an answer that was cut",
    "",
    async (page) => (await send(page, "Cut this short, older messages and all."), await lastAnswer(page, "truncated")),
  ],
  [
    "an answer that ended in a loop",
    "fresh",
    async (page) => (await send(page, "This ends in a loop."), await lastAnswer(page, "truncated")),
  ],
  [
    "the model picker",
    "",
    async (page) => (
      await page.getByTestId("model-pill").click(),
      await page.getByTestId("model-choice").first().waitFor()
    ),
  ],
  [
    "the system prompt",
    "",
    async (page) => (
      await openConversation(page, "Rye bread"),
      await page.getByTestId("instructions").click(),
      await page.getByTestId("chat-settings-prompt").waitFor()
    ),
  ],
  [
    "a correction",
    "",
    async (page) => (
      await openConversation(page, "Borrow checker"),
      await inMenu(answers(page).last(), "correct"),
      await page.getByTestId("correction").waitFor()
    ),
  ],
  [
    "the question before a deletion",
    "",
    async (page) => (
      await openConversation(page, "Borrow checker"),
      await inMenu(page.locator("[data-role=user]").first(), "delete-message"),
      await page.getByTestId("deletion").waitFor()
    ),
  ],
  [
    "the question before a restart",
    "",
    async (page) => {
      await page.evaluate("fakeHost.update()");
      await openConversation(page, "Rye bread");
      await page.getByTestId("edit").last().focus();
      await page.getByTestId("edit").last().click();
      await page.getByTestId("edit-text").fill("A better question");
      await page.getByTestId("restart").click();
      await page.getByTestId("restart-dialog").waitFor();
    },
  ],
  ["the command palette", "", async (page) => (await page.keyboard.press("Control+k"), await page.keyboard.type("s"))],
  [
    "the conversation's settings",
    "",
    async (page) => (
      await openConversation(page, "Rye bread"),
      await page.getByTestId("chat-settings-toggle").click(),
      await page.getByTestId("chat-settings").waitFor()
    ),
  ],
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
  [
    "the actions on presets",
    "presets",
    async (page) => (
      await page.getByTestId("chat-settings-toggle").click(),
      await page.getByTestId("preset").selectOption({ label: "Storyteller" }),
      await page.getByTestId("preset-menu").click(),
      await page.getByTestId("preset-delete").waitFor()
    ),
  ],
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
  [
    "find in a conversation",
    "",
    async (page) => (
      await openConversation(page, "Rye bread"),
      await page.keyboard.press("Control+f"),
      await page.getByTestId("find").waitFor()
    ),
  ],
  [
    "a message that is edited",
    "",
    async (page) => (await openConversation(page, "Borrow checker"), await page.getByTestId("edit").first().click()),
  ],
  [
    "an answer that is edited",
    "",
    async (page) => (
      await openConversation(page, "Borrow checker"),
      await page.getByTestId("edit-answer").last().click(),
      await page.getByTestId("edit-answer-text").waitFor()
    ),
  ],
  [
    "the details of an answer",
    "",
    async (page) => (
      await openConversation(page, "Borrow checker"),
      await inMenu(answers(page).last(), "details"),
      await page.getByTestId("answer-details").waitFor()
    ),
  ],
  [
    "the menu of an answer",
    "",
    async (page) => (
      await openConversation(page, "Borrow checker"),
      await answers(page).last().getByTestId("message-menu").click(),
      await page.getByTestId("details").waitFor()
    ),
  ],
  [
    "the context menu of an answer",
    "",
    async (page) => (
      await openConversation(page, "Borrow checker"),
      await answers(page).last().locator("h2").click({ button: "right" }),
      await page.getByTestId("details").waitFor()
    ),
  ],
  [
    "a tooltip",
    "",
    async (page) => (
      await page.getByTestId("chat-settings-toggle").hover(),
      await page.getByTestId("tooltip").waitFor()
    ),
  ],
  [
    "a palette that finds nothing",
    "",
    async (page) => (await page.keyboard.press("Control+k"), await page.keyboard.type("no such thing")),
  ],
  [
    "queued messages",
    "slow",
    async (page) => (
      await pace(page, 5),
      await send(page, "Tell me a long story."),
      await lastAnswer(page, "streaming"),
      await pace(page, Number.POSITIVE_INFINITY),
      await page.getByTestId("composer").fill("And then?"),
      await page.keyboard.press("Enter"),
      await page.getByTestId("queued").waitFor()
    ),
  ],
];
