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
  await queue.ended(answer("stopped"));
  await queue.ended(answer("cut"));
  await queue.ended(answer("complete", 2));
  expect(sent).toEqual([]);
  await Promise.all([queue.ended(answer("complete")), queue.ended(answer("complete"))]);
  expect(sent).toEqual([[1, 7, "one"]]);
  await queue.ended(answer("complete", 1, 6));
  expect(sent.at(-1)).toEqual([1, null, "two"]);
});

test("a message that cannot be sent is the first again", async () => {
  const queue = new Queue(null, async () => Promise.reject(new Error("no model")));
  queue.add(1, "one", []);
  queue.add(1, "two", []);
  await expect(queue.next(1)).rejects.toThrow("no model");
  expect(queue.of(1).map(({ text }) => text)).toEqual(["one", "two"]);
});
