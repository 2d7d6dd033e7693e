// The places of the list of conversations, folders, tags and saved prompts.

import type { FakeHost } from "../../../src/lib/host/fake";
import { openConversation, openSettings } from "../window";
import { onConversation, type Place } from "./place";

export const places: Place[] = [
  [
    "search results",
    "",
    async (page) => (
      await page.getByTestId("search").fill("the"),
      await page.getByTestId("search-hit").first().waitFor()
    ),
  ],
  [
    "a toast",
    "",
    async (page) => (
      await page.getByTestId("open-conversation").first().press("Delete"),
      await page.getByTestId("toast").hover()
    ),
  ],
  [
    "the menu of a conversation",
    "",
    async (page) => (await onConversation(page, "conversation-menu"), await page.getByTestId("pin").first().waitFor()),
  ],
  ["a new title", "", async (page) => (await openConversation(page, "Letter"), await onConversation(page, "rename"))],
  [
    "the bin",
    "",
    async (page) => (
      await onConversation(page, "delete"),
      await page.getByTestId("open-bin").click(),
      await page.getByTestId("binned").waitFor()
    ),
  ],
  [
    "emptying the bin",
    "",
    async (page) => (
      await onConversation(page, "delete"),
      await page.getByTestId("open-bin").click(),
      await page.getByTestId("bin-empty").click(),
      await page.getByTestId("bin-empty-confirm").waitFor()
    ),
  ],
  [
    "a link to a conversation",
    "",
    async (page) => (
      await page.evaluate("fakeHost.openLinks({ type: 'conversation', id: 4 })"),
      await page.getByTestId("opened-link").waitFor()
    ),
  ],
  [
    "folders and tags",
    "organized",
    async (page) => (
      await page.getByTestId("folder-toggle").first().click(),
      await openConversation(page, "Borrow checker"),
      await page.getByTestId("folder-pill").waitFor()
    ),
  ],
  [
    "the context menu of a folder",
    "organized",
    async (page) => (
      await page.getByTestId("folder-toggle").first().click({ button: "right" }),
      await page.getByTestId("folder-menu-new").waitFor()
    ),
  ],
  [
    "a folder's settings",
    "organized",
    async (page) => (
      await page.getByTestId("folder-toggle").first().hover(),
      await page.getByTestId("folder-menu").first().click(),
      await page.getByTestId("folder-settings").click(),
      await page.getByTestId("folder-dialog").waitFor()
    ),
  ],
  [
    "a folder's settings with thinking",
    "thinks",
    async (page) => (
      await page.getByTestId("new-folder").click(),
      await page.getByTestId("folder-name").fill("Stories"),
      await page.keyboard.press("Enter"),
      await page.getByTestId("folder-toggle").first().hover(),
      await page.getByTestId("folder-menu").first().click(),
      await page.getByTestId("folder-settings").click(),
      await page.getByTestId("folder-dialog").getByTestId("thinking").waitFor()
    ),
  ],
  [
    "thinking that a folder chooses",
    "thinks",
    async (page) => {
      await page.evaluate(async () => {
        const host = (window as unknown as { fakeHost: FakeHost }).fakeHost;
        const folder = await host.createFolder("Stories");
        await host.updateFolder({
          ...folder,
          settings: { ...folder.settings, thinking: { enabled: true, effort: "high" } },
        });
      });
      await page.getByTestId("folder-toggle").hover();
      await page.getByTestId("folder-new-conversation").click();
      await page.getByTestId("thinking-choice").waitFor();
    },
  ],
  [
    "moving a conversation",
    "organized",
    async (page) => (
      await onConversation(page, "conversation-menu"),
      await page.getByTestId("move").click(),
      await page.getByTestId("move-dialog").waitFor()
    ),
  ],
  [
    "the tags of a conversation",
    "organized",
    async (page) => (
      await onConversation(page, "conversation-menu"),
      await page.getByTestId("edit-tags").click(),
      await page.getByTestId("tags-dialog").waitFor()
    ),
  ],
  [
    "filters of the search",
    "organized",
    async (page) => (
      await page.getByTestId("tag").first().click(),
      await page.getByTestId("toggle-filters").click(),
      await page.getByTestId("filter-time").selectOption("custom"),
      await page.getByTestId("search-hit").first().waitFor()
    ),
  ],
  [
    "saved prompts at the composer",
    "organized",
    async (page) => (
      await page.getByTestId("composer").pressSequentially("/"),
      await page.getByTestId("prompt-menu").waitFor()
    ),
  ],
  [
    "the variables of a prompt",
    "organized",
    async (page) => (
      await page.getByTestId("composer").pressSequentially("/code"),
      await page.keyboard.press("Enter"),
      await page.getByTestId("variables-dialog").waitFor()
    ),
  ],
  [
    "saved prompts",
    "organized",
    async (page) => (
      await openSettings(page, "chat"),
      await page.getByTestId("edit-prompts").click(),
      await page.getByTestId("saved-prompt").first().waitFor()
    ),
  ],
  [
    "a saved prompt",
    "organized",
    async (page) => (
      await openSettings(page, "chat"),
      await page.getByTestId("edit-prompts").click(),
      await page.getByTestId("prompt-edit").first().click(),
      await page.getByTestId("prompt-editor").waitFor()
    ),
  ],
];
