// Places: every view, important dialog and menu of the window, for the tests that look at all of
// them. This file has the ways to places that several of them share; the others list the places of
// an area.

import type { Page } from "playwright-core";
import { send } from "../window";

/** A place: its name, its scene of the fake host, and the way to it. */
export type Place = readonly [name: string, scene: string, act: (page: Page) => Promise<unknown>];

export const tune = (page: Page) => page.getByTestId("view-tune").click();

export const run = async (page: Page, id: string) => {
  await tune(page);
  await page.locator(`[data-testid=run][data-id="${id}"]`).getByTestId("open-run").click();
  await page.getByTestId("loss-chart").waitFor();
};

export const pair = async (page: Page) => {
  await run(page, "21");
  await page.getByTestId("try-it").click();
  await send(page, "My order is late, what now?");
  await page.getByTestId("vote").nth(1).waitFor();
};

/** Opens the menu of a conversation, or one of its buttons: both appear under the pointer. */
export const onConversation = async (page: Page, button: string) => {
  const item = page.getByTestId("conversation").nth(2);
  await item.hover();
  await item.getByTestId(button).click();
};

export const discover = async (page: Page) => {
  await page.getByTestId("view-models").click();
  await page.getByTestId("tab-discover").click();
  await page.getByTestId("catalog-model").first().waitFor();
};

export const find = async (page: Page, query: string, end = "hub-status") => {
  await discover(page);
  await page.getByTestId("hub-query").fill(query);
  await page.getByTestId("hub-search").click();
  await page.getByTestId(end).filter({ hasText: /\S/ }).waitFor();
};

export const repository = async (page: Page, query: string) => {
  await find(page, query);
  await page.getByTestId("hub-result").first().click();
  await page.getByTestId("variant").first().waitFor();
};

export const drop = (page: Page, event: object) =>
  page.evaluate(
    (args) => (window as unknown as { fakeHost: { drop: (drop: object) => void } }).fakeHost.drop(args),
    event,
  );
