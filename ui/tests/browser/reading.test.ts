import type { Locator, Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { answers, drawn, inMenu, lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

/** An answer with formulas, footnotes, long code and a diagram. */
async function lecture(): Promise<Awaited<ReturnType<typeof open>> & { answer: Locator }> {
  const window = await open();
  await pace(window.page, 0);
  await send(window.page, "Give me the lecture.");
  const answer = await lastAnswer(window.page, "complete");
  return { ...window, answer };
}

const clipboard = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

/** Goes to another conversation and back. */
async function reopen(page: Page) {
  await openConversation(page, "Letter to the landlord");
  await openConversation(page, "Give me the lecture.");
}

describe("a formula", () => {
  test("is drawn under the window's policy, and its source is read where it is no maths", async () => {
    const { page, answer, errors } = await lecture();
    const formulas = answer.getByTestId("maths");
    await expect.poll(() => formulas.count()).toBe(4);
    expect(await formulas.first().locator("math").count()).toBe(1);
    expect(await answer.locator(".tex").allTextContents()).toEqual(["$\\frac{1}{2$"]);
    expect(await answer.textContent()).toContain("that costs $5 in some books and $10 in others");
    const [display, plain] = await Promise.all([
      formulas.nth(1).boundingBox(),
      answer.locator("p").first().boundingBox(),
    ]);
    expect(display?.height).toBeGreaterThan(30);
    expect(plain?.height).toBeLessThan(80);
    // Heights and shifts are set as properties, which the policy allows.
    expect(
      await formulas
        .first()
        .locator(".katex-html [style*=height]")
        .first()
        .evaluate((strut) => strut.getBoundingClientRect().height),
    ).toBeGreaterThan(5);
    await page.waitForFunction(() => document.fonts.check("16px KaTeX_Main"));
    expect(errors).toEqual([]);
  });

  test("that is no maths stays its source", async () => {
    const { page, errors } = await open({ scene: "fresh" });
    await pace(page, 0);
    await send(page, "Say: Broken \\(\\frac{1}{\\) and \\(x\\)");
    const answer = await lastAnswer(page, "complete");
    await expect.poll(() => answer.getByTestId("maths").count()).toBe(1);
    expect(await answer.locator(".tex").textContent()).toBe("\\(\\frac{1}{\\)");
    expect(errors).toEqual([]);
  });
});

describe("a footnote", () => {
  test("is reached from the text, and the text from it", async () => {
    const { page, answer } = await lecture();
    const reference = answer.getByRole("button", { name: "Footnote 1", exact: true });
    await reference.click();
    const note = answer.getByTestId("footnote").first();
    expect(await note.evaluate((element) => element === document.activeElement)).toBe(true);
    expect(await note.textContent()).toContain("Named after Gauss");
    await note.getByTestId("footnote-back").click();
    expect(await reference.evaluate((element) => element === document.activeElement)).toBe(true);
    expect(await page.getByTestId("footnote-reference").count()).toBe(2);
  });
});

describe("long code", () => {
  test("is folded when it is seen first, not while it is written", async () => {
    const { page } = await open();
    await pace(page, 15);
    await send(page, "Give me the lecture.");
    await expect.poll(() => answers(page).last().locator("pre").first().textContent()).toContain("line_2");
    await pace(page, 0);
    const answer = await lastAnswer(page, "complete");
    expect(await answer.locator("pre").first().textContent()).toContain("line_40 = 40");
    await reopen(page);
    const reopened = answers(page).last();
    expect(await reopened.locator("pre").first().textContent()).not.toContain("line_21");
    await reopened.getByTestId("fold-code").click();
    expect(await reopened.locator("pre").first().textContent()).toContain("line_40 = 40");
    await reopen(page);
    expect(await answers(page).last().locator("pre").first().textContent()).toContain("line_40 = 40");
    await answers(page).last().getByTestId("fold-code").click();
    expect(await answers(page).last().locator("pre").first().textContent()).not.toContain("line_21");
  });
});

describe("a diagram", () => {
  test("is drawn, and its source is a click away", async () => {
    const { answer, errors } = await lecture();
    const diagram = answer.getByTestId("diagram");
    await diagram.waitFor();
    expect(await diagram.locator("text").allTextContents()).toEqual(
      expect.arrayContaining(["Write the integral twice", "yes", "Solve it"]),
    );
    await answer.getByTestId("diagram-source").click();
    expect(await answer.locator("pre").last().textContent()).toContain("A[Write the integral twice] --> B");
    expect(await diagram.count()).toBe(0);
    await answer.getByTestId("diagram-drawn").click();
    await diagram.waitFor();
    expect(errors).toEqual([]);
  });

  test("that cannot be drawn is code", async () => {
    const { page, errors } = await open({ scene: "fresh" });
    await pace(page, 0);
    await send(page, 'Say: ```mermaid\npie\n"a": 1\n```\n\n```mermaid\ngraph TD\nA-->B\n```');
    const answer = await lastAnswer(page, "complete");
    await answer.getByTestId("diagram").waitFor();
    expect(await answer.getByTestId("diagram").count()).toBe(1);
    expect(await answer.locator("pre").textContent()).toBe('pie\n"a": 1');
    expect(errors).toEqual([]);
  });
});

describe("a message of the user", () => {
  const mine = (page: Page) => page.locator("[data-testid=message][data-role=user]").last();

  test("has its code, tables and formulas, and the rest as it was typed", async () => {
    const { page, errors } = await open({ scene: "fresh" });
    await pace(page, 0);
    const typed = "# Why  is `a` *so* $x^2$?\n  - two\n\n```js\nlet a = 1;\n```\n\na | b\n--|--\n1 | 2\nThanks";
    await send(page, `Say: Yes.\n${typed}`);
    await lastAnswer(page, "complete");
    const text = mine(page).locator(".markdown");
    await expect.poll(() => text.getByTestId("maths").count()).toBe(1);
    expect(await text.locator("p").evaluateAll((all) => all.map((p) => (p as HTMLElement).innerText))).toEqual([
      expect.stringMatching(/^Say: Yes\.\n# Why {2}is a \*so\* [\s\S]*\?\n {2}- two$/),
      "Thanks",
    ]);
    expect(await text.locator("p code").allTextContents()).toEqual(["a"]);
    expect(await text.locator("pre").allTextContents()).toEqual(["let a = 1;"]);
    expect(await text.locator("td").allTextContents()).toEqual(["1", "2"]);
    expect(await text.locator("h1, h2, h3, li, em, a").count()).toBe(0);
    await page.keyboard.press("Control+f");
    await page.getByTestId("find-text").fill("is a *so*");
    const marked = () =>
      page.evaluate(() =>
        [...((CSS as unknown as { highlights: Map<string, Set<Range>> }).highlights.get("find") ?? [])].map(String),
      );
    await expect.poll(marked).toContain("is a *so*");
    expect(errors).toEqual([]);
  });

  test("of many lines is folded, unfolds by keyboard and for a search, and stays so", async () => {
    const { page, errors } = await open();
    await pace(page, 0);
    const lines = Array.from({ length: 40 }, (_, i) => `line ${i + 1}`).join("\n");
    await page.getByTestId("composer").fill(`What is the capital of France?\n${lines}`);
    await page.keyboard.press("Enter");
    await lastAnswer(page, "complete");
    const shown = () => mine(page).locator(".markdown").innerText();
    const fold = mine(page).getByTestId("fold-message");
    expect([await fold.textContent(), await fold.getAttribute("aria-expanded")]).toEqual([
      "Show all 41 lines",
      "false",
    ]);
    expect(await shown()).toMatch(/line 19$/);
    await page.keyboard.press("Control+f");
    await page.getByTestId("find-text").fill("line 39");
    await expect.poll(shown).toContain("line 40");
    await page.keyboard.press("Escape");
    await expect.poll(shown).toMatch(/line 19$/);
    await fold.focus();
    await page.keyboard.press("Enter");
    expect(await shown()).toContain("line 40");
    expect(await fold.evaluate((button) => button === document.activeElement)).toBe(true);
    await openConversation(page, "Letter to the landlord");
    await openConversation(page, "What is the capital of France?");
    await expect.poll(() => fold.textContent()).toBe("Show less");
    await fold.click();
    expect(await shown()).toMatch(/line 19$/);
    expect(errors).toEqual([]);
  });
});

describe("an answer", () => {
  test("keeps its line breaks, and a search finds words across them", async () => {
    const { page } = await open({ scene: "fresh" });
    await pace(page, 0);
    await send(page, "Say: Roses are red,\nviolets are **blue**.");
    const answer = await lastAnswer(page, "complete");
    expect(await answer.locator("p").innerText()).toBe("Roses are red,\nviolets are blue.");
    await page.keyboard.press("Control+f");
    await page.getByTestId("find-text").fill("red, violets are blue");
    await expect.poll(() => page.getByTestId("find-count").textContent()).toBe("1 of 1");
    const marked = () =>
      page.evaluate(() =>
        [...((CSS as unknown as { highlights: Map<string, Set<Range>> }).highlights.get("find") ?? [])].map(String),
      );
    await expect.poll(marked).toEqual(["red,violets are blue"]);
  });

  test("is copied as text, Markdown or code, by keyboard too", async () => {
    const { page, answer } = await lecture();
    await inMenu(answer, "copy-text");
    expect(await clipboard(page)).toMatch(/^The area under the bell curve is \$\\sqrt\{\\pi\}\$, a fact\[gauss\]/);
    await answer.getByTestId("message-menu").focus();
    for (const key of ["Enter", "ArrowUp", "ArrowUp", "ArrowUp", "Enter"]) await page.keyboard.press(key);
    await expect.poll(() => clipboard(page)).toMatch(/^line_1 = 1\n/);
    await inMenu(answer, "copy-markdown");
    await expect.poll(() => clipboard(page)).toContain("[^gauss]: Named after *Gauss*");
    await answer.getByTestId("message-menu").click();
    await page.keyboard.press("Escape");
    expect(await answer.getByRole("menu").count()).toBe(0);
    expect(await answer.getByTestId("message-menu").evaluate((element) => element === document.activeElement)).toBe(
      true,
    );
  });

  test("without code has none to copy", async () => {
    const { page } = await open();
    await openConversation(page, "Rye bread");
    await answers(page).last().getByTestId("message-menu").click();
    expect(await page.getByTestId("copy-code").isDisabled()).toBe(true);
  });

  test("is read aloud by a local voice, and stopped", async () => {
    const { page } = await open();
    await openConversation(page, "Rye bread");
    const isOffered = async () => {
      await answers(page).last().getByTestId("message-menu").click();
      await page.getByTestId("details").waitFor();
      const count = await page.getByTestId("read-aloud").count();
      await page.keyboard.press("Escape");
      return count === 1;
    };
    expect(await isOffered()).toBe(false);
    // A voice of a service on the network is none.
    const voices = (local: boolean) =>
      page.evaluate((localService) => {
        const spoken: string[] = [];
        Object.assign(window, {
          spoken,
          SpeechSynthesisUtterance: class {
            constructor(readonly text: string) {}
          },
        });
        const voice = { localService, default: true, lang: "en-GB", name: "Test" };
        Object.assign(speechSynthesis, {
          getVoices: () => [voice],
          speak: ({ text }: { text: string }) => spoken.push(text),
          cancel: () => spoken.push("(stopped)"),
        });
        speechSynthesis.dispatchEvent(new Event("voiceschanged"));
      }, local);
    await voices(false);
    await drawn(page);
    expect(await isOffered()).toBe(false);
    await voices(true);
    await inMenu(answers(page).last(), "read-aloud");
    const spoken = () => page.evaluate(() => (window as unknown as { spoken: string[] }).spoken);
    expect(await spoken()).toEqual(["(stopped)", "400 g of water: 80 % of 500 g."]);
    await page.getByTestId("stop-reading").click();
    expect((await spoken()).at(-1)).toBe("(stopped)");
    await expect.poll(() => page.getByTestId("stop-reading").count()).toBe(0);
  });
});

describe("find in the conversation", () => {
  const matchCount = (page: Page) => page.getByTestId("find-count").textContent();
  const marked = (page: Page, name: string) =>
    page.evaluate(
      (key) => [...((CSS as unknown as { highlights: Map<string, Set<Range>> }).highlights.get(key) ?? [])].map(String),
      name,
    );

  test("counts, goes on and back, and closes", async () => {
    const { page, errors } = await open();
    await openConversation(page, "Borrow checker");
    await page.keyboard.press("Control+f");
    await page.keyboard.type("ITERATOR");
    await expect.poll(() => matchCount(page)).toBe("1 of 2");
    await expect.poll(() => marked(page, "find")).toEqual(["iterator", "iterator"]);
    expect(await marked(page, "find-current")).toEqual(["iterator"]);
    await page.keyboard.press("Enter");
    await expect.poll(() => matchCount(page)).toBe("2 of 2");
    await page.keyboard.press("Enter");
    await expect.poll(() => matchCount(page)).toBe("1 of 2");
    await page.keyboard.press("Shift+Enter");
    await expect.poll(() => matchCount(page)).toBe("2 of 2");
    await page.getByTestId("find-text").fill("a shared borrow of");
    await expect.poll(() => marked(page, "find-current")).toEqual(["a shared borrow of"]);
    await page.getByTestId("find-text").fill("nowhere");
    await expect.poll(() => matchCount(page)).toBe("No matches");
    await page.keyboard.press("Escape");
    expect(await page.getByTestId("find").count()).toBe(0);
    expect(await marked(page, "find")).toEqual([]);
    expect(errors).toEqual([]);
  });

  test("folds accents and opens folded code", async () => {
    const { page } = await lecture();
    await reopen(page);
    await page.keyboard.press("Control+f");
    await page.keyboard.type("deja vu");
    await expect.poll(() => marked(page, "find-current")).toEqual(["Déjà vu"]);
    await page.getByTestId("find-text").fill("line_39");
    await expect.poll(() => marked(page, "find-current")).toEqual(["line_39"]);
    await page.getByTestId("find-close").click();
    expect(await answers(page).last().locator("pre").first().textContent()).not.toContain("line_21");
  });

  test("goes through 10,000 messages and shows each match", async () => {
    const { page, errors } = await open({ scene: "many" });
    await page.getByTestId("open-conversation").first().click();
    await page.getByTestId("message").first().waitFor();
    await page.keyboard.press("Control+f");
    await page.getByTestId("find-text").fill("heating");
    await expect.poll(() => matchCount(page), { timeout: 60_000 }).toMatch(/^[\d,]+ of [\d,]+$/);
    for (let i = 0; i < 3; i++) {
      const before = await matchCount(page);
      await page.keyboard.press(i === 1 ? "Shift+Enter" : "Enter");
      await expect.poll(() => matchCount(page)).not.toBe(before);
      await expect.poll(() => marked(page, "find-current").then((matches) => matches.length)).toBe(1);
      const visible = () =>
        page.evaluate(() => {
          const range = [
            ...((CSS as unknown as { highlights: Map<string, Set<Range>> }).highlights.get("find-current") ?? []),
          ][0];
          const view = document.querySelector("[data-testid=thread]")?.getBoundingClientRect();
          const at = range?.getBoundingClientRect();
          return at && view ? at.top >= view.top && at.bottom <= view.bottom : false;
        });
      await expect.poll(visible).toBe(true);
    }
    expect(errors).toEqual([]);
  });

  test("is only in the chat", async () => {
    const { page } = await open();
    await page.getByTestId("view-models").click();
    await page.keyboard.press("Control+f");
    expect(await page.getByTestId("find").count()).toBe(0);
  });
});
