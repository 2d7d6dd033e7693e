import { expect, test } from "vitest";
import type { Message } from "../../src/lib/host";
import { Queue, type Queued } from "../../src/lib/stores/queue.svelte";

class Memory {
  values = new Map<string, string>();
  getItem(key: string) {
    return this.values.get(key) ?? null;
  }
  setItem(key: string, value: string) {
    this.values.set(key, value);
  }
}

const answer = (type: "complete" | "stopped" | "cut", conversation = 1, comparison: number | null = null) => ({ id: 7, conversation, comparison, role: "assistant", state: { type } }) as unknown as Message;

test("messages outlive a restart with their files", () => {
  const memory = new Memory();
  new Queue(memory, async () => {}).add(3, "Later", [{ name: "a.txt", text: "A" }]);
  const again = new Queue(memory, async () => {});
  expect(again.of(3)).toEqual([{ id: 1, text: "Later", files: [{ name: "a.txt", text: "A" }] }]);
  expect(again.of(4)).toEqual([]);
});

test.each(["", "{", "null", "[]", '{"3": 1}', '{"3": [null, {"text": 1, "files": []}, {"text": "a", "files": [{"name": 1}]}]}'])("what cannot be read is no queue: %s", (text) => {
  const memory = new Memory();
  memory.setItem("hearth.queue", text);
  expect(new Queue(memory, async () => {}).of(3)).toEqual([]);
});

test("only a complete answer sends the next, once", async () => {
  const sent: [number, number | null, string][] = [];
  const queue = new Queue(null, async (conversation, parent, { text }: Queued) => void sent.push([conversation, parent, text]));
  queue.add(1, "one", []);
  queue.add(1, "two", []);
  await queue.ended(answer("complete", 2));
  expect(sent).toEqual([]);
  await Promise.all([queue.ended(answer("complete")), queue.ended(answer("complete"))]);
  expect(sent).toEqual([[1, 7, "one"]]);
  await queue.ended(answer("complete", 1, 6));
  expect(sent.at(-1)).toEqual([1, null, "two"]);
});

test.each(["stopped", "cut"] as const)("after an answer that was %s, messages are held until they are sent by hand", async (type) => {
  const sent: string[] = [];
  const queue = new Queue(null, async (_, __, { text }: Queued) => void sent.push(text));
  for (const text of ["one", "two", "three"]) queue.add(1, text, []);
  await queue.ended(answer(type));
  await queue.ended(answer("complete"));
  expect([sent, queue.isHeld(1)]).toEqual([[], true]);
  await queue.next(1);
  await queue.ended(answer("complete"));
  expect([sent, queue.isHeld(1)]).toEqual([["one", "two"], false]);
});

test("after a restart, messages are held", async () => {
  const memory = new Memory();
  new Queue(memory, async () => {}).add(1, "Later", []);
  const sent: string[] = [];
  const again = new Queue(memory, async (_, __, { text }) => void sent.push(text));
  await again.ended(answer("complete"));
  expect([sent, again.isHeld(1)]).toEqual([[], true]);
});

test("a full storage has no message that was sent", async () => {
  const memory = new Memory();
  const full = { getItem: (key: string) => memory.getItem(key), setItem: (key: string, value: string) => { if (value.length > 90) throw new Error("full"); memory.setItem(key, value); } };
  const queue = new Queue(full, async () => {});
  queue.add(1, "one", []);
  queue.add(1, "two", [{ name: "large", text: "x".repeat(100) }]);
  await queue.next(1);
  expect(new Queue(memory, async () => {}).of(1).map(({ text, files }) => [text, files])).toEqual([["two", []]]);
  queue.add(1, "y".repeat(100), []);
  expect(new Queue(memory, async () => {}).of(1)).toEqual([]);
});

test("a message that cannot be sent is the first again", async () => {
  const queue = new Queue(null, async () => Promise.reject(new Error("no model")));
  queue.add(1, "one", []);
  queue.add(1, "two", []);
  await expect(queue.next(1)).rejects.toThrow("no model");
  expect(queue.of(1).map(({ text }) => text)).toEqual(["one", "two"]);
});
