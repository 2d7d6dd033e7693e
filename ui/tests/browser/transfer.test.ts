import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { open, openSettings, pace, settings, useBrowser } from "./window";

useBrowser("isolated");

const item = (page: Page, title: string) => page.getByTestId("conversation").filter({ hasText: title });
const drop = (page: Page, path: string) =>
  page.evaluate(
    (dropped) =>
      (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop({
        type: "drop",
        paths: [dropped],
      }),
    path,
  );

test("an export is imported once, and what was skipped is said", async () => {
  const { page, errors } = await settings("two-gpus", "data");
  await page.getByTestId("import-file").click();
  const report = page.getByTestId("import-report");
  await report.waitFor();
  expect(await report.locator("li").allTextContents()).toEqual([
    "3 conversations were imported from ChatGPT.",
    "2 of 5 conversations were skipped: 1 is empty (“New chat”), 1 cannot be read.",
  ]);
  await page.getByTestId("import-file").click();
  await expect
    .poll(() => report.locator("li").first().textContent())
    .toBe("No new conversations were imported from ChatGPT.");
  await page.getByTestId("view-chat").click();
  expect(await item(page, "Regex for dates").count()).toBe(1);
  expect(errors).toEqual([]);
});

test("an import is cancelled, and can be repeated", async () => {
  const { page, errors } = await settings("two-gpus", "data");
  await pace(page, 200);
  await page.getByTestId("import-file").click();
  await page.getByTestId("import-cancel").click();
  await page.getByTestId("import-cancel").waitFor({ state: "detached" });
  expect(await page.getByTestId("import-report").count()).toBe(0);
  await pace(page, 0);
  await page.getByTestId("import-file").click();
  await page.getByTestId("import-report").waitFor();
  expect(errors).toEqual([]);
});

test("an archive that is dropped is imported, and a file that is no export is explained", async () => {
  const { page } = await open();
  await pace(page, 0);
  await drop(page, "/home/you/Downloads/claude-export.zip");
  await item(page, "Regex for dates").waitFor();
  await page.getByTestId("toast").filter({ hasText: "3 conversations were imported" }).waitFor();
  await drop(page, "/home/you/photos.zip");
  await page
    .getByTestId("toast")
    .filter({ hasText: "Hearth found no conversations in /home/you/photos.zip." })
    .waitFor();
});

test("one conversation is exported from its menu by keyboard, and all from Data", async () => {
  const { page, errors } = await open();
  await pace(page, 0);
  await item(page, "Rye bread").getByTestId("open-conversation").focus();
  await page.keyboard.press("Shift+F10");
  await page.getByTestId("export-markdown").waitFor();
  while (!(await page.getByTestId("export-html").evaluate((e) => e === document.activeElement)))
    await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByTestId("toast").filter({ hasText: "Written to /home/you/Rye bread, 80 % hydration.html" }).waitFor();
  await openSettings(page, "data");
  await page.getByTestId("chat-format-json").check();
  await page.getByTestId("export-all").click();
  await expect
    .poll(() => page.getByTestId("export-result").textContent())
    .toBe("8 conversations were written to /home/you/Conversations.json (34 kB).");
  const exports = await page.evaluate(
    () => (window as unknown as { fakeHost: { exports: object[] } }).fakeHost.exports,
  );
  expect(exports).toEqual([
    { conversation: 4, format: "html", user: "You", path: "/home/you/Rye bread, 80 % hydration.html" },
    { conversation: null, format: "json", user: "You", path: "/home/you/Conversations.json" },
  ]);
  expect(errors).toEqual([]);
});

test("everything is backed up, and a restoration is confirmed, announced and can be cancelled", async () => {
  const { page, errors } = await settings("two-gpus", "data");
  await page.getByTestId("back-up").click();
  await expect
    .poll(() => page.getByTestId("backup-result").textContent())
    .toBe(
      "27 files were backed up to /media/you/disk/Hearth.hearthbackup (48 MB). 1 file is not in the backup: 1 is a link or another special file (“runs/3/latest”).",
    );
  await page.getByTestId("restore-backup").click();
  await page.getByTestId("restore-confirm").click();
  await page.getByTestId("restore-pending").waitFor();
  expect(await page.getByTestId("restore-pending").textContent()).toContain(
    "with 212 conversations is checked. It is put in place when Hearth starts the next time",
  );
  await page.getByTestId("cancel-restore").click();
  await page.getByTestId("restore-pending").waitFor({ state: "detached" });
  await page.evaluate("fakeHost.pace = 500");
  await page.getByTestId("restore-backup").click();
  await page.getByTestId("restore-confirm").click();
  await page.getByTestId("data-settings").getByRole("progressbar").waitFor();
  await page.getByTestId("cancel-extraction").click();
  await page.getByTestId("toast").filter({ hasText: "The restoration was cancelled" }).waitFor();
  await page.getByTestId("cancel-extraction").waitFor({ state: "detached" });
  await page.evaluate("fakeHost.pace = 0");
  await page.evaluate(() =>
    Object.assign((window as unknown as { fakeHost: object }).fakeHost, { backup: "/media/you/damaged.hearthbackup" }),
  );
  await page.getByTestId("restore-backup").click();
  await page.getByTestId("restore-confirm").click();
  await page.getByTestId("toast").filter({ hasText: "is damaged" }).waitFor();
  expect(await page.getByTestId("data-place").textContent()).toBe("/home/you/.local/share/hearth");
  await page.getByTestId("open-data-folder").click();
  expect(errors).toEqual([]);
});

test("the data folder is moved, and what stays behind is deleted", async () => {
  const { page, errors } = await settings("two-gpus", "data");
  const place = () => page.getByTestId("data-place").textContent();
  await page.evaluate("fakeHost.pace = 500");
  await page.getByTestId("move-data").click();
  expect(await page.getByTestId("move-dialog").textContent()).toContain(
    "copies its data (12.4 GB) to /media/you/disk/Hearth and restarts",
  );
  await page.getByTestId("move-confirm").click();
  await page.getByTestId("move-dialog").getByRole("progressbar").waitFor();
  await page.getByTestId("move-cancel").click();
  await page.getByTestId("toast").filter({ hasText: "The move was cancelled" }).waitFor();
  await page.getByTestId("move-dialog").waitFor({ state: "detached" });
  expect(await place()).toBe("/home/you/.local/share/hearth");

  await page.evaluate("fakeHost.pace = 0");
  await page.getByTestId("move-data").click();
  await page.getByTestId("move-confirm").click();
  await expect.poll(place).toBe("/media/you/disk/Hearth");
  expect(await page.getByTestId("former-data").textContent()).toContain(
    "still in /home/you/.local/share/hearth (12.3 GB)",
  );
  await page.getByTestId("delete-former").click();
  await page.getByTestId("former-confirm").click();
  await page.getByTestId("former-data").waitFor({ state: "detached" });
  expect(await page.getByTestId("former-left").textContent()).toBe(
    "The copy is deleted. 1 file there was not part of it and stays: /home/you/.local/share/hearth/models/new/model.gguf.",
  );

  await page.evaluate(() =>
    Object.assign((window as unknown as { fakeHost: object }).fakeHost, { dataFolder: "/media/you/disk/Hearth" }),
  );
  await page.getByTestId("move-data").click();
  await page.getByTestId("toast").filter({ hasText: "cannot be moved into the folder that it is in" }).waitFor();
  expect(errors).toEqual([]);
});

test("a conversation is pinned to the top", async () => {
  const { page } = await open();
  const act = async (title: string) => {
    await item(page, title).hover();
    await item(page, title).getByTestId("conversation-menu").click();
    await item(page, title).getByTestId("pin").click();
  };
  await act("Haiku about a kettle");
  const titles = () =>
    page
      .getByTestId("open-conversation")
      .allTextContents()
      .then((all) => all.map((title) => title.trim()));
  await expect.poll(async () => (await titles())[0]).toBe("Haiku about a kettle");
  expect(await page.getByTestId("conversations").locator("h2").first().textContent()).toBe("Pinned");
  await act("Haiku about a kettle");
  await expect.poll(async () => (await titles()).at(-1)).toBe("Haiku about a kettle");
});

test("a deleted conversation is restored from the bin, or deleted for good", async () => {
  const { page, errors } = await open();
  for (const title of ["Rye bread", "Letter to the landlord"]) {
    await item(page, title).hover();
    await item(page, title).getByTestId("delete").click();
    await item(page, title).waitFor({ state: "detached" });
  }
  await page.getByTestId("open-bin").click();
  const binned = page.getByTestId("binned");
  await expect
    .poll(() => binned.locator(".title").allTextContents())
    .toEqual(["Letter to the landlord", "Rye bread, 80 % hydration"]);
  await binned.first().getByTestId("bin-restore").click();
  await expect.poll(() => binned.count()).toBe(1);
  await page.getByTestId("bin-empty").click();
  await page.getByTestId("bin-empty-confirm").click();
  await expect.poll(() => binned.count()).toBe(0);
  await page.keyboard.press("Escape");
  expect(await item(page, "Letter").count()).toBe(1);
  expect(await item(page, "Rye bread").count()).toBe(0);
  expect(errors).toEqual([]);
});
