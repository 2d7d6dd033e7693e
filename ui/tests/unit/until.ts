import { vi } from "vitest";

/** Waits until a condition holds; only a hang exceeds the time limit. */
export function until(condition: () => boolean | Promise<boolean>): Promise<boolean> {
  return vi.waitUntil(condition, { timeout: 60_000, interval: 1 });
}
