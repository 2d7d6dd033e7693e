import { expect, test } from "vitest";
import type { Message } from "../../src/lib/host";
import { Queue, type Queued } from "../../src/lib/stores/queue.svelte";
import { UnsentSaver } from "../../src/lib/stores/unsent";

const saver = () => new UnsentSaver({ saveUnsent: async () => {} }, () => {});
const answer = (type: "complete" | "stopped" | "truncated", conversation = 1, comparison: number | null = null) =>
  ({ id: 7, conversation, comparison, role: "assistant", state: { type } }) as unknown as Message;

test("only a complete answer sends the next, once", async () => {
  const sent: [number, number | null, string][] = [];
  const queue = new Queue(
    saver(),
    async (conversation, parent, { text }: Queued) => void sent.push([conversation, parent, text]),
  );
  queue.add(1, "one", []);
  queue.add(1, "two", []);
  await queue.ended(answer("complete", 2));
  expect(sent).toEqual([]);
  await Promise.all([queue.ended(answer("complete")), queue.ended(answer("complete"))]);
  expect(sent).toEqual([[1, 7, "one"]]);
  await queue.ended(answer("complete", 1, 6));
  expect(sent.at(-1)).toEqual([1, null, "two"]);
});

test.each(["stopped", "truncated"] as const)(
  "after an answer that was %s, messages are held until they are sent by hand",
  async (type) => {
    const sent: string[] = [];
    const queue = new Queue(saver(), async (_, __, { text }: Queued) => void sent.push(text));
    for (const text of ["one", "two", "three"]) queue.add(1, text, []);
    await queue.ended(answer(type));
    await queue.ended(answer("complete"));
    expect([sent, queue.isHeld(1)]).toEqual([[], true]);
    await queue.next(1);
    await queue.ended(answer("complete"));
    expect([sent, queue.isHeld(1)]).toEqual([["one", "two"], false]);
  },
);

test("after a restart, messages are held", async () => {
  const sent: string[] = [];
  const queue = new Queue(saver(), async (_, __, { text }) => void sent.push(text));
  queue.fill(1, [{ text: "Later", files: [] }]);
  await queue.ended(answer("complete"));
  expect([sent, queue.isHeld(1)]).toEqual([[], true]);
});

test("a message that cannot be sent is the first again", async () => {
  const queue = new Queue(saver(), async () => Promise.reject(new Error("no model")));
  queue.add(1, "one", []);
  queue.add(1, "two", []);
  await expect(queue.next(1)).rejects.toThrow("no model");
  expect(queue.of(1).map(({ text }) => text)).toEqual(["one", "two"]);
});
