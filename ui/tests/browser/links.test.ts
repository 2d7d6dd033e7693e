import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import type { Link } from "../../src/lib/host";
import { drawn, open, pace, useBrowser } from "./window";

useBrowser("isolated");

interface Fake {
  requests: string[];
  openLinks(...links: Link[]): void;
  downloads(): Promise<unknown[]>;
  settings(): Promise<unknown>;
}

declare const fakeHost: Fake;

const REPOSITORY: Link = {
  type: "model",
  source: "hf.co/unsloth/Qwen3-0.6B-GGUF",
  place: { type: "hub", owner: "unsloth", name: "Qwen3-0.6B-GGUF", revision: null, quantization: null, file: null },
};
const VARIANT: Link = {
  type: "model",
  source: "hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0",
  place: { type: "hub", owner: "unsloth", name: "Qwen3-0.6B-GGUF", revision: null, quantization: "Q8_0", file: null },
};
const OLLAMA: Link = {
  type: "model",
  source: "ollama://qwen3:0.6b",
  place: { type: "ollama", host: "registry.ollama.ai", owner: null, name: "qwen3", tag: "0.6b" },
};
const WEB: Link = {
  type: "model",
  source: "https://example.org:8443/m/poet.gguf",
  place: { type: "web", host: "example.org:8443", file: "poet.gguf" },
};

async function window(scene = ""): Promise<{ page: Page; errors: string[] }> {
  const opened = await open({ scene });
  await pace(opened.page, 0);
  return opened;
}

const openLinks = (page: Page, ...links: Link[]) => page.evaluate((args) => fakeHost.openLinks(...args), links);
const requests = (page: Page) => page.evaluate(() => fakeHost.requests);
const downloads = (page: Page) => page.evaluate(async () => (await fakeHost.downloads()).length);
const dialog = (page: Page) => page.getByTestId("opened-link");
/** The facts of the dialog, as `name: value`. */
const place = (page: Page) =>
  page
    .locator("[data-testid=link-place] > div")
    .evaluateAll((facts) => facts.map((fact) => [...fact.children].map(({ textContent }) => textContent).join(": ")));

test.each([
  [REPOSITORY, "Qwen3-0.6B-GGUF", ["From: huggingface.co", "Owner: unsloth", "Repository: Qwen3-0.6B-GGUF"]],
  [
    VARIANT,
    "Qwen3-0.6B-GGUF",
    ["From: huggingface.co", "Owner: unsloth", "Repository: Qwen3-0.6B-GGUF", "Quantization: Q8_0"],
  ],
  [OLLAMA, "qwen3", ["From: registry.ollama.ai", "Model: qwen3", "Tag: 0.6b"]],
  [WEB, "poet.gguf", ["From: example.org:8443", "File: poet.gguf"]],
])("a link to a model shows its source and does nothing before it is confirmed (%#)", async (link, name, facts) => {
  const { page, errors } = await window();
  const before = await requests(page);
  await openLinks(page, link);
  await dialog(page).waitFor();
  expect((await dialog(page).getByRole("heading").textContent())?.replace(/[\u2068\u2069]/g, "")).toBe(
    `A link wants to download ${name}`,
  );
  expect(await place(page)).toEqual(facts);
  await page.getByTestId("link-cancel").click();
  await expect.poll(() => dialog(page).count()).toBe(0);
  expect(await requests(page)).toEqual(before);
  expect(await page.getByTestId("composer").count()).toBe(1);
  expect(errors).toEqual([]);
});

test("who agrees to a repository sees its variants, and downloads by hand", async () => {
  const { page, errors } = await window();
  await openLinks(page, REPOSITORY);
  await page.getByTestId("link-agree").click();
  await page.getByTestId("variant").first().waitFor();
  expect(await page.getByTestId("repository").getAttribute("data-id")).toBe("unsloth/Qwen3-0.6B-GGUF");
  expect(await downloads(page)).toBe(0);
  expect(errors).toEqual([]);
});

test.each([VARIANT, OLLAMA, WEB])(
  "a confirmed link to a file shows its fit and does not start the download (%#)",
  async (link) => {
    const { page, errors } = await window();
    // A repository that is open gives way.
    await openLinks(page, REPOSITORY);
    await page.getByTestId("link-agree").click();
    await page.getByTestId("variant").first().waitFor();
    await openLinks(page, link);
    await page.getByTestId("link-agree").click();
    await page.getByTestId("address-card").getByTestId("checked-verdict").waitFor();
    expect(await page.getByTestId("address-card").textContent()).toContain(link.type === "model" ? link.source : "");
    expect(await downloads(page)).toBe(0);
    await page.getByTestId("address-card").getByTestId("download").click();
    await expect.poll(() => downloads(page)).toBe(1);
    expect(errors).toEqual([]);
  },
);

test("a conversation is opened after a question, and an unknown one is not", async () => {
  const { page, errors } = await window();
  await openLinks(page, { type: "conversation", id: 4 });
  expect(await dialog(page).getByRole("heading").textContent()).toBe(
    "Open the conversation “Rye bread, 80 % hydration”?",
  );
  expect(await page.getByTestId("message").count()).toBe(0);
  await page.getByTestId("link-agree").click();
  await page.getByTestId("message").filter({ hasText: "rye flour" }).waitFor();
  await openLinks(page, { type: "conversation", id: 999 });
  await page.getByTestId("toast").filter({ hasText: "its conversation is not in this Hearth" }).waitFor();
  expect(await dialog(page).count()).toBe(0);
  expect(errors).toEqual([]);
});

test.each([
  ["tooLong", "it is too long"],
  ["hiddenCharacters", "it contains hidden characters"],
  ["unknownForm", "hearth://model?from=…"],
  ["unknownSource", "it names no repository of the hub"],
] as const)("a link that is refused for %s is said in a sentence", async (reason, words) => {
  const { page, errors } = await window();
  await openLinks(page, { type: "refused", reason });
  await page.getByTestId("toast").filter({ hasText: words }).waitFor();
  expect(await dialog(page).count()).toBe(0);
  expect(errors).toEqual([]);
});

test("links are confirmed one at a time, without duplicates and up to a limit", async () => {
  const { page, errors } = await window();
  const many = [1, 2, 3, 4, 5, 6, 7].map((id): Link => ({ type: "conversation", id }));
  await openLinks(page, WEB, WEB, ...many);
  await dialog(page).waitFor();
  const titles: string[] = [];
  for (let left = 4; left > 0; left -= 1) {
    titles.push((await dialog(page).getByRole("heading").textContent()) ?? "");
    expect(await page.getByTestId("more-links").textContent()).toBe(
      left === 1 ? "One more link is waiting." : `${left} more links are waiting.`,
    );
    await page.keyboard.press("Escape");
  }
  titles.push((await dialog(page).getByRole("heading").textContent()) ?? "");
  expect(await page.getByTestId("more-links").count()).toBe(0);
  expect(new Set(titles).size).toBe(5);
  expect(titles[0]).toContain("poet.gguf");
  await page.keyboard.press("Escape");
  await expect.poll(() => dialog(page).count()).toBe(0);
  expect(errors).toEqual([]);
});

test("a double click agrees to one link, not to the next one unread", async () => {
  const { page } = await window();
  await openLinks(page, REPOSITORY, WEB);
  await dialog(page).waitFor();
  await page.getByTestId("link-agree").dblclick();
  await page.getByTestId("repository").waitFor();
  expect(await dialog(page).getByRole("heading").textContent()).toContain("poet.gguf");
  // Nor does it dismiss the next dialog if that is smaller, so that the second click is outside of
  // it.
  const beside = (detail: number) =>
    dialog(page).evaluate(
      (element, detail) => element.dispatchEvent(new MouseEvent("click", { detail, bubbles: true })),
      detail,
    );
  await beside(2);
  await drawn(page);
  expect(await dialog(page).count()).toBe(1);
  await beside(1);
  await expect.poll(() => dialog(page).count()).toBe(0);
});

test("nothing is looked up offline", async () => {
  const { page, errors } = await window("offline");
  await openLinks(page, REPOSITORY);
  await dialog(page).getByText("Searches and downloads are switched off.").waitFor();
  expect(await page.getByTestId("link-agree").isDisabled()).toBe(true);
  expect(errors).toEqual([]);
});

test("a link that was opened before the page loaded is asked about", async () => {
  const { page, errors } = await window("link");
  await dialog(page).waitFor();
  expect(await place(page)).toContain("Owner: unsloth");
  expect(errors).toEqual([]);
});
