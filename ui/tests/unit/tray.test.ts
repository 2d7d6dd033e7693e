import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Host, TrayContent } from "../../src/lib/host";
import { Tray } from "../../src/lib/stores/tray.svelte";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function tray() {
  const sent: (TrayContent | null)[] = [];
  const desktop = { hasTray: true };
  const host = {
    setTray: async (content: TrayContent | null) => {
      sent.push(content);
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

test("what is shown is not sent again", async () => {
  const { sent, tray: icon } = tray();
  icon.show(null);
  icon.show(content("1"));
  await vi.advanceTimersByTimeAsync(5000);
  icon.show(content("1"));
  await vi.advanceTimersByTimeAsync(5000);
  expect(sent).toEqual([content("1")]);
  icon.show(null);
  await vi.advanceTimersByTimeAsync(0);
  expect(sent).toEqual([content("1"), null]);
  expect(icon.shown).toBe(false);
});

test("a tray that was missing is tried again, not every second", async () => {
  const { sent, desktop, tray: icon } = tray();
  desktop.hasTray = false;
  icon.show(content("1"));
  await vi.advanceTimersByTimeAsync(5000);
  expect(icon.shown).toBe(false);
  icon.show(content("1"));
  expect(sent).toHaveLength(1);
  desktop.hasTray = true;
  await vi.advanceTimersByTimeAsync(25_000);
  expect(sent).toHaveLength(2);
  expect(icon.shown).toBe(true);
});
