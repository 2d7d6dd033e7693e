import { expect, test } from "vitest";
import { lastAnswer, open, openConversation, pace, send, useBrowser } from "./window";

useBrowser();

test("a hostile answer becomes text", async () => {
  const { page, errors } = await open();
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  await pace(page, 2);
  await send(page, "Be hostile.");
  const answer = await lastAnswer(page, "complete");
  expect(await page.evaluate("window.pwned")).toBeUndefined();
  await answer.locator(".maths").first().waitFor({ state: "attached" });
  expect((await answer.locator(".tex").allTextContents()).length).toBe(3);
  expect(await answer.locator("img, script, iframe, object, embed, form, [onclick], [onerror]").count()).toBe(0);
  expect(
    await answer
      .locator("[style]")
      .evaluateAll((all) => all.filter((element) => !element.closest(".maths, svg[data-testid=diagram]")).length),
  ).toBe(0);
  await answer.getByTestId("diagram").waitFor();
  expect((await answer.getByTestId("diagram").locator("text").allTextContents()).join(" ")).toBe(
    "<img src=x onerror='window.pwned=1'> B",
  );
  expect(await answer.getByTestId("footnote").textContent()).toContain('<svg onload="window.pwned=1">');
  expect(
    await answer
      .locator(".maths *")
      .evaluateAll((all) => all.filter((element) => getComputedStyle(element).position === "fixed").length),
  ).toBe(0);
  expect(await answer.locator("a").evaluateAll((links) => links.map((a) => a.getAttribute("href")))).toEqual([
    "https://example.com/track.png",
    "https://example.com/page",
  ]);
  // Only the page's own files, which are loaded with the first formula.
  const origin = new URL(page.url()).origin;
  expect(requests.filter((url) => !url.startsWith(`${origin}/assets/`))).toEqual([]);
  expect(errors).toEqual([]);
});

test("a link shows its destination and opens outside the window", async () => {
  const { page } = await open();
  await openConversation(page, "Everything markdown");
  const link = page.getByRole("link", { name: "link to the Rust book" });
  expect(await link.locator("xpath=following-sibling::span[1]").textContent()).toContain("doc.rust-lang.org");
  const before = page.url();
  await link.click();
  expect(await page.evaluate("fakeHost.opened")).toEqual(["https://doc.rust-lang.org/book/"]);
  expect(page.url()).toBe(before);
});

test("code is copied verbatim", async () => {
  const { page } = await open();
  await openConversation(page, "Borrow checker");
  await page.getByRole("button", { name: "Copy code" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(
    "let more: Vec<_> = v.iter().map(|x| x * 2).collect();\nv.extend(more);",
  );
});
