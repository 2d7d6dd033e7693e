import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { open, openSettings, pace, useBrowser } from "./window";

useBrowser("isolated");

interface Fake {
  tokenElsewhere: "environment" | "file" | null;
  keychain: "saved" | "empty" | "missing" | "locked";
}

/** Opens the models' settings on a machine with this keychain and these other tokens. */
async function sources(fake: Partial<Fake> = {}, language = "en"): Promise<{ page: Page; errors: string[] }> {
  const window = await open({ height: 1400, language });
  await pace(window.page, 0);
  await window.page.evaluate(
    (fake) => Object.assign((globalThis as unknown as { fakeHost: Fake }).fakeHost, fake),
    fake,
  );
  await openSettings(window.page, "models");
  await window.page.getByTestId("hub-token-source").waitFor();
  return window;
}

const token = (page: Page) => page.getByTestId("hub-token");
const source = (page: Page) => page.getByTestId("hub-token-source").textContent();
const field = (page: Page) => page.getByTestId("hub-token-field");
const focused = (page: Page) => page.evaluate(() => document.activeElement?.getAttribute("data-testid"));

test("a token is saved, never shown, and removed", async () => {
  const { page, errors } = await sources();
  expect(await source(page)).toContain("Not set");
  expect(await field(page).getAttribute("type")).toBe("password");
  expect(await page.getByTestId("hub-token-save").isDisabled()).toBe(true);
  expect(await page.getByTestId("hub-token-remove").count()).toBe(0);
  await field(page).fill("hf_secret");
  await field(page).press("Enter");
  await expect.poll(() => source(page)).toContain("In the keychain");
  expect(await field(page).inputValue()).toBe("");
  await expect.poll(() => focused(page)).toBe("hub-token-field");
  expect(await page.getByTestId("hub-token-done").textContent()).toBe("The token was saved in the keychain.");
  expect(await page.content()).not.toContain("hf_secret");
  await page.getByTestId("hub-token-remove").click();
  await expect.poll(() => source(page)).toContain("Not set");
  expect(await page.getByTestId("hub-token-done").textContent()).toContain("removed");
  expect(errors).toEqual([]);
});

test("what is no token is said beside the field, which keeps it", async () => {
  const { page, errors } = await sources();
  await field(page).fill("two words");
  await page.getByTestId("hub-token-save").click();
  await expect.poll(() => page.getByTestId("hub-token-problem").textContent()).toContain("This is no token.");
  expect(await field(page).getAttribute("aria-invalid")).toBe("true");
  expect(await field(page).inputValue()).toBe("two words");
  await field(page).fill("hf_right");
  await page.getByTestId("hub-token-save").click();
  await expect.poll(() => source(page)).toContain("In the keychain");
  expect(await page.getByTestId("hub-token-problem").textContent()).toBe("");
  expect(errors).toEqual([]);
});

test.each([
  [{ keychain: "missing" }, "Not set", "has no keychain, so Hearth cannot save a token. Set HF_TOKEN", false],
  [{ keychain: "missing", tokenElsewhere: "file" }, "From a login", "a login with hf auth login is used", false],
  [{ keychain: "locked" }, "Not set", "is locked or refuses access", true],
  [{ keychain: "saved" }, "In the keychain", "Saved in this system’s keychain.", true],
  [
    { keychain: "saved", tokenElsewhere: "environment" },
    "From HF_TOKEN",
    "Another token is saved in the keychain; HF_TOKEN goes first.",
    true,
  ],
  [{ keychain: "saved", tokenElsewhere: "file" }, "In the keychain", "Saved in this system’s keychain.", true],
] as const)("%o is said in words", async (fake, tag, words, hasField) => {
  const { page, errors } = await sources(fake);
  expect((await source(page))?.trim()).toBe(tag);
  expect((await token(page).textContent())?.replace(/\s+/g, " ")).toContain(words);
  expect(await field(page).count()).toBe(hasField ? 1 : 0);
  expect(errors).toEqual([]);
});

test.each([
  ["en", "Unlock it and try again"],
  ["de", "Der Schlüsselbund des Systems ist gesperrt oder verweigert den Zugriff."],
])("a locked keychain is a sentence in %s", async (language, words) => {
  const { page, errors } = await sources({ keychain: "locked" }, language);
  await field(page).fill("hf_secret");
  await page.getByTestId("hub-token-save").click();
  await expect.poll(() => page.getByTestId("hub-token-problem").textContent()).toContain(words);
  expect(errors).toEqual([]);
});

test("another hub does not get the token", async () => {
  const { page, errors } = await sources({ keychain: "saved" });
  expect(await token(page).textContent()).not.toContain("not sent");
  await page.getByTestId("hub-endpoint").fill("https://mirror.example");
  await page.getByTestId("hub-endpoint").press("Tab");
  await expect.poll(() => token(page).textContent()).toContain("It is not sent to the hub that is set above.");
  expect(errors).toEqual([]);
});
