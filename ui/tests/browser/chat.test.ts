import { describe, expect, test } from "vitest";
import {
  answers,
  drawn,
  lastAnswer,
  open,
  openConversation,
  openSettings,
  pace,
  send,
  useBrowser,
  USUAL_PACE,
} from "./window";

useBrowser();

describe("an answer", () => {
  test("streams and ends with its speed", async () => {
    const { page, errors } = await open({ scene: "fresh" });
    await pace(page, USUAL_PACE);
    await send(page, "Tell me a long story.");
    const growing = await lastAnswer(page, "streaming");
    const early = (await growing.textContent())?.length ?? 0;
    await expect.poll(async () => (await growing.textContent())?.length ?? 0).toBeGreaterThan(early);
    await pace(page, 0);
    const answer = await lastAnswer(page, "complete");
    expect(await answer.getByTestId("stats").textContent()).toContain("231 tokens/s");
    expect(await answer.textContent()).toContain("Paragraph 24.");
    expect(await page.getByTestId("open-conversation").first().textContent()).toContain("Tell me a long story.");
    expect(errors).toEqual([]);
  });

  test("has the figures of its draft, if something was drafted", async () => {
    const { page } = await open();
    await pace(page, 0);
    const figures = async (question: string) => {
      const before = await answers(page).count();
      await send(page, question);
      await expect.poll(() => answers(page).count()).toBe(before + 1);
      const answer = await lastAnswer(page, "complete");
      expect(await answer.getByTestId("stats").textContent()).toContain("231 tokens/s");
      const draft = answer.getByTestId("draft-stats");
      return (await draft.count()) === 0 ? null : [await draft.textContent(), await draft.getAttribute("title")];
    };
    expect(await figures("Repeat after me: what is the capital of France?")).toEqual([
      expect.stringMatching(/^drafted (59|60|61) %$/),
      expect.stringMatching(
        /tokens drafted, \d+ accepted\. 1\.8 times plain speed\. 40 % of the steps verified a draft\.$/,
      ),
    ]);
    expect(await figures("Surprise me.")).toEqual([
      expect.stringMatching(/^drafted \d %$/),
      expect.stringContaining("It switched itself off: it cost more than it gained."),
    ]);
    expect(await figures("What is the capital of France?")).toBe(null);
    await openSettings(page, "models");
    await page.getByTestId("draft").selectOption("none");
    await page.getByTestId("reload-model").click();
    await page.getByTestId("reload-model").waitFor({ state: "detached" });
    await page.getByTestId("view-chat").click();
    await expect.poll(() => page.getByTestId("model-pill").getAttribute("data-state")).toBe("ready");
    expect(await figures("Repeat after me: what is the capital of France?")).toBe(null);
  });

  test("shows a thought while it grows, then folded", async () => {
    const { page, errors } = await open({ scene: "fresh" });
    await pace(page, 30);
    await send(page, "Think: what is the capital of France?");
    const toggle = page.getByRole("button", { name: "Thinking" });
    await toggle.waitFor();
    expect(await toggle.getAttribute("aria-expanded")).toBe("true");
    await page.getByTestId("thought").getByText("The question is").waitFor();
    await pace(page, 0);
    const answer = await lastAnswer(page, "complete");
    const folded = page.getByRole("button", { name: "Thought" });
    expect(await folded.getAttribute("aria-expanded")).toBe("false");
    expect(await answer.getByText("The question is").isVisible()).toBe(false);
    expect(await answer.getByText("Paris").last().isVisible()).toBe(true);
    await folded.focus();
    await page.keyboard.press("Enter");
    expect(await answer.getByText("The question is").isVisible()).toBe(true);
    expect(errors).toEqual([]);
  });

  test("shows tools, images and files as cards, and an edit keeps them", async () => {
    const { page, errors } = await open({ scene: "parts" });
    await pace(page, 0);
    await openConversation(page, "Sales by quarter");
    const cards = page.getByTestId("part");
    expect(
      await cards.evaluateAll((all) => all.map((e) => (e as HTMLElement).innerText.replace(/\s+/g, " ").trim())),
    ).toEqual(["sales.csv File, 39 B", "chart.png Image, 48 kB", "sum Tool call", "sum Tool result"]);
    await page.getByRole("button", { name: "sales.csv" }).click();
    expect(await cards.first().textContent()).toContain("3,412");
    await page.getByTestId("edit").first().click();
    expect(await page.getByTestId("edit-text").inputValue()).toBe(
      "What were the sales, and in which quarter were they best?",
    );
    await page.getByTestId("edit-text").fill("And the worst?");
    await page.keyboard.press("Enter");
    await lastAnswer(page, "complete");
    expect(await page.getByTestId("part").count()).toBe(2);
    expect(errors).toEqual([]);
  });

  test("stops by button and by Escape, and retains its text", async () => {
    const { page } = await open();
    await pace(page, USUAL_PACE);
    for (const stop of [() => page.getByTestId("stop").click(), () => page.keyboard.press("Escape")]) {
      await send(page, "Tell me a long story.");
      await answers(page).last().getByText("Paragraph 2.").waitFor();
      await stop();
      const stopped = await lastAnswer(page, "stopped");
      expect(await stopped.textContent()).toContain("Paragraph 1.");
    }
  });

  test("can be regenerated, and its versions stepped through", async () => {
    const { page } = await open();
    await pace(page, 0);
    await openConversation(page, "Borrow checker");
    expect(await page.getByTestId("branch").textContent()).toContain("2 of 3");
    await page.getByTestId("regenerate").last().click();
    await lastAnswer(page, "complete");
    await expect.poll(() => page.getByTestId("branch").textContent()).toContain("4 of 4");
    await page.getByTestId("branch-previous").click();
    await expect.poll(() => page.getByTestId("branch").textContent()).toContain("3 of 4");
    expect(await answers(page).last().textContent()).toContain("may move while you look");
  });

  test("follows an edited message on its own branch", async () => {
    const { page } = await open();
    await pace(page, 0);
    await openConversation(page, "Letter to the landlord");
    await page.getByTestId("edit").first().click();
    await page.getByTestId("edit-text").fill("What is the capital of France?");
    await page.keyboard.press("Enter");
    await lastAnswer(page, "complete");
    expect(await answers(page).last().textContent()).toContain("Paris");
    expect(await page.getByTestId("branch").first().textContent()).toContain("2 of 2");
  });

  test.each([
    ["Cut this short.", "truncated", "cut", "length limit"],
    ["This fails.", "failed", "failed", "ran out of memory"],
    ["Are older messages gone?", "complete", "left-out", "3 older messages (412 tokens) no longer fit"],
    ["Say that the context is full.", "truncated", "cut", "The context is full"],
  ])("shows how it ended: %s", async (question, state, note, text) => {
    const { page } = await open();
    await pace(page, 0);
    await send(page, question);
    const answer = await lastAnswer(page, state);
    expect(await answer.getByTestId(note).textContent()).toContain(text);
  });

  test("that failed can be retried", async () => {
    const { page } = await open();
    await pace(page, 0);
    await send(page, "This fails.");
    await lastAnswer(page, "failed");
    await page.getByTestId("try-again").click();
    await lastAnswer(page, "failed");
    await expect.poll(() => page.getByTestId("branch").textContent()).toContain("2 of 2");
  });
});

test("a locked store ends no answer and is reported", async () => {
  const { page, errors } = await open();
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await answers(page).last().getByText("Paragraph 2.").waitFor();
  await page.evaluate("fakeHost.lockStore(true)");
  await expect.poll(() => page.getByTestId("toast").textContent()).toContain("Answers continue");
  await page.evaluate("fakeHost.lockStore(false)");
  await expect.poll(() => page.getByTestId("toast").last().textContent()).toContain("Everything is saved again.");
  await answers(page).last().getByText("Paragraph 3.").waitFor();
  expect(errors).toEqual([]);
});

test("a crashed worker loses neither the text nor the next answer", async () => {
  const { page } = await open();
  await pace(page, USUAL_PACE);
  await send(page, "Tell me a long story.");
  await answers(page).last().getByText("Paragraph 2.").waitFor();
  await page.evaluate("fakeHost.killWorker()");
  const failed = await lastAnswer(page, "failed");
  expect(await failed.textContent()).toContain("Paragraph 1.");
  expect(await failed.getByTestId("failed").textContent()).toContain("exited unexpectedly");
  await pace(page, 0);
  await send(page, "What is the capital of France?");
  expect(await (await lastAnswer(page, "complete")).textContent()).toContain("Paris");
});

test("a crash without an answer is shown above the composer", async () => {
  const { page } = await open();
  await page.evaluate("fakeHost.killWorker()");
  expect(await page.getByTestId("worker-died").textContent()).toContain("exited unexpectedly");
});

test("after an update in place, a button restarts Hearth", async () => {
  const { page } = await open();
  await page.evaluate("fakeHost.update()");
  const note = page.getByTestId("model-failed");
  expect(await note.textContent()).toContain("Restart Hearth");
  await note.getByTestId("restart").click();
  expect(await page.evaluate("fakeHost.restarts")).toBe(1);
  // A restart asks before it drops an edit.
  await openConversation(page, "Rye bread");
  const edit = page.getByTestId("edit").last();
  await edit.focus();
  await edit.click();
  await page.getByTestId("edit-text").fill("A better question");
  await note.getByTestId("restart").click();
  const dialog = page.getByTestId("restart-dialog");
  await dialog.getByRole("button", { name: "Cancel" }).click();
  expect(await page.getByTestId("edit-text").inputValue()).toBe("A better question");
  await note.getByTestId("restart").click();
  await dialog.getByTestId("restart-confirm").click();
  await dialog.waitFor({ state: "detached" });
  expect(await page.evaluate("fakeHost.restarts")).toBe(2);
});

test("a message that was not sent becomes the draft again and stays with its conversation", async () => {
  const { page } = await open();
  await send(page, "/refuse this one");
  expect(await page.getByTestId("toast").textContent()).toContain("An answer is still being generated");
  expect(await page.getByTestId("composer").inputValue()).toBe("/refuse this one");
  await openConversation(page, "Rye bread");
  expect(await page.getByTestId("composer").inputValue()).toBe("");
  await page.getByTestId("composer").fill("half a thought");
  await page.getByTestId("new-conversation").click();
  expect(await page.getByTestId("composer").inputValue()).toBe("/refuse this one");
  await openConversation(page, "Rye bread");
  expect(await page.getByTestId("composer").inputValue()).toBe("half a thought");
});

test("Shift Enter starts a new line; Enter sends", async () => {
  const { page } = await open();
  await pace(page, 0);
  await page.getByTestId("composer").focus();
  await page.keyboard.type("one");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("two");
  await page.keyboard.press("Enter");
  await lastAnswer(page, "complete");
  expect(await page.locator("[data-role=user] .bubble p").textContent()).toBe("one\ntwo");
});

test("a long thread follows the answer only at its end", async () => {
  const { page } = await open({ height: 600 });
  await pace(page, USUAL_PACE);
  const thread = page.getByTestId("thread");
  const left = () => thread.evaluate((e) => Math.round(e.scrollHeight - e.scrollTop - e.clientHeight));
  const height = () => thread.evaluate((e) => e.scrollHeight);
  await send(page, "Tell me a long story.");
  await lastAnswer(page, "streaming");
  await expect.poll(() => thread.evaluate((e) => e.scrollTop)).toBeGreaterThan(150);
  expect(await left()).toBeLessThan(40);
  await thread.hover();
  await page.mouse.wheel(0, -120);
  await page.getByTestId("jump-to-latest").waitFor();
  const [still, before] = [await thread.evaluate((e) => e.scrollTop), await height()];
  await expect.poll(height).toBeGreaterThan(before + 100);
  await drawn(page);
  expect(await thread.evaluate((e) => e.scrollTop)).toBe(still);
  await page.getByTestId("jump-to-latest").click();
  await expect.poll(left).toBeLessThan(40);
  await pace(page, 5);
  await lastAnswer(page, "complete");
  expect(await left()).toBeLessThan(40);
});

test("announces the start and the text of an answer, not each token", async () => {
  const { page } = await open();
  await page.evaluate(() => {
    const announced: string[] = [];
    Object.assign(window, { announced });
    const announcer = document.querySelector("[data-testid=announcer]");
    if (announcer)
      new MutationObserver(() => announced.push(announcer.textContent ?? "")).observe(announcer, {
        childList: true,
        characterData: true,
        subtree: true,
      });
  });
  await pace(page, 4);
  await send(page, "What is the capital of France?");
  await lastAnswer(page, "complete");
  await expect.poll(() => page.evaluate("announced.length")).toBe(2);
  const announced = (await page.evaluate("announced")) as string[];
  expect(announced[0]).toBe("The model is answering.");
  expect(announced[1]).toContain("Answer: The capital of France");
});

test("announces an answer that ends at once, and none that was there before", async () => {
  const { page } = await open();
  await pace(page, 0);
  const announcer = page.getByTestId("announcer");
  await openConversation(page, "Borrow checker");
  await drawn(page);
  expect(await announcer.textContent()).toBe("");
  // The command answers after its answer has ended: the page never sees it growing.
  await page.evaluate(() => {
    const host = (
      window as unknown as {
        fakeHost: { send: (...args: unknown[]) => Promise<unknown>; generating: Map<number, unknown> };
      }
    ).fakeHost;
    const originalSend = host.send.bind(host);
    host.send = async (...args) => {
      const sent = await originalSend(...args);
      while (host.generating.size > 0) await new Promise((resolve) => setTimeout(resolve));
      return sent;
    };
  });
  await send(page, "Say: Yes.");
  await lastAnswer(page, "complete");
  await expect.poll(() => announcer.textContent()).toBe("Answer: Yes.");
  await openConversation(page, "SQL");
  await drawn(page);
  expect(await announcer.textContent()).toBe("Answer: Yes.");
});

test("text files go with a message, from the dialog, the clipboard and the desktop", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await page.getByTestId("attach").click();
  await expect.poll(() => page.getByTestId("attached").count()).toBe(2);
  await page.evaluate(() => {
    const clipboard = new DataTransfer();
    clipboard.items.add(new File(["pasted text"], "pasted.txt"));
    document
      .querySelector("[data-testid=composer]")
      ?.dispatchEvent(new ClipboardEvent("paste", { clipboardData: clipboard, bubbles: true, cancelable: true }));
  });
  await expect.poll(() => page.getByTestId("attached").count()).toBe(3);
  await page.evaluate(() =>
    (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop({
      type: "drop",
      paths: ["/x/notes.md"],
    }),
  );
  await expect
    .poll(() => page.getByTestId("attached").allInnerTexts())
    .toEqual([
      expect.stringContaining("main.rs"),
      expect.stringContaining("README.md"),
      expect.stringContaining("pasted.txt"),
      expect.stringContaining("notes.md"),
    ]);
  await page.getByTestId("attached").filter({ hasText: "README.md" }).getByTestId("detach").click();
  // Files alone are a message.
  await page.getByTestId("send").click();
  await lastAnswer(page, "complete");
  const mine = page.locator("[data-testid=message][data-role=user]");
  await expect.poll(() => mine.getByTestId("part").count()).toBe(3);
  expect(await page.getByTestId("attached").count()).toBe(0);
  // A file that is not text is refused. A text file that was read before it stays.
  await page.evaluate(() =>
    (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop({
      type: "drop",
      paths: ["/x/a.txt", "/x/photo.png"],
    }),
  );
  await expect.poll(() => page.getByTestId("toast").first().innerText()).toContain("not a text file");
  expect(await page.getByTestId("attached").count()).toBe(1);
  expect(errors).toEqual([]);
});

test("text is written from right to left where its script is, whatever the language of the window", async () => {
  const { page } = await open();
  await pace(page, 0);
  await send(page, "مرحبا، كيف حالك؟");
  await lastAnswer(page, "complete");
  const direction = (selector: string) =>
    page
      .locator(selector)
      .last()
      .evaluate((element) => getComputedStyle(element).direction);
  expect(await direction("[data-role=user] .bubble p")).toBe("rtl");
  expect(await direction("[data-role=assistant] p")).toBe("ltr");
  await page.getByTestId("composer").fill("שלום");
  expect(await direction("[data-testid=composer]")).toBe("rtl");
});
