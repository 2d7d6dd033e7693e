import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Host, TrayContent } from "../../src/lib/host";
import { Tray } from "../../src/lib/stores/tray.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function tray() {
  const sent: (TrayContent | null)[] = [];
  const desktop = { hasTray: true, answers: 0 };
  const host = {
    setTray: async (content: TrayContent | null) => {
      sent.push(content);
      await new Promise((resolve) => setTimeout(resolve, desktop.answers));
      if (!desktop.hasTray) throw new Error("no tray");
      return content !== null;
    },
  };
  return { sent, desktop, tray: new Tray(host as unknown as Host) };
}

const content = (line: string): TrayContent => ({ open: "Show window", running: [line], quit: "Quit" });

test("the first content is sent at once, then the newest after a pause", async () => {
  const { sent, tray: icon } = tray();
  for (const line of ["1", "2", "3"]) icon.show(content(line));
  expect(sent).toEqual([content("1")]);
  await vi.advanceTimersByTimeAsync(1000);
  expect(sent).toEqual([content("1"), content("3")]);
  expect(icon.shown).toBe(true);
});

test("one call at a time waits for a slow desktop", async () => {
  const { sent, desktop, tray: icon } = tray();
  desktop.answers = 5000;
  icon.show(content("1"));
  for (let second = 0; second < 5; second++) {
    icon.show(content(`after ${second} s`));
    await vi.advanceTimersByTimeAsync(999);
  }
  expect(sent).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(1500);
  expect(sent).toEqual([content("1"), content("after 4 s")]);
});

test("the icon of an earlier page is removed, and what is shown is not sent again at once", async () => {
  const { sent, tray: icon } = tray();
  icon.show(null);
  await vi.advanceTimersByTimeAsync(1000);
  expect(sent).toEqual([null]);
  icon.show(content("1"));
  await vi.advanceTimersByTimeAsync(5000);
  icon.show(content("1"));
  await vi.advanceTimersByTimeAsync(5000);
  expect(sent).toEqual([null, content("1")]);
  icon.show(null);
  await vi.advanceTimersByTimeAsync(100_000);
  expect(sent).toEqual([null, content("1"), null]);
  expect(icon.shown).toBeNull();
});

test("a panel that comes, and one that goes, is noticed", async () => {
  const { sent, desktop, tray: icon } = tray();
  desktop.hasTray = false;
  icon.show(content("1"));
  await vi.advanceTimersByTimeAsync(2000);
  expect(icon.shown).toBe(false);
  desktop.hasTray = true;
  await vi.advanceTimersByTimeAsync(30_000);
  expect(icon.shown).toBe(true);
  desktop.hasTray = false;
  await vi.advanceTimersByTimeAsync(32_000);
  expect(icon.shown).toBe(false);
  expect(sent).toHaveLength(3);
});
