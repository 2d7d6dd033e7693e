import { expect, test } from "vitest";
import type { UnsentChange } from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import { detailed } from "../../src/lib/host/fake/problems";
import { App } from "../../src/lib/stores/app.svelte";
import { UnsentSaver } from "../../src/lib/stores/unsent";
import { started } from "./started";
import { until } from "./until";

const file = { name: "a.txt", text: "A" };

/** A host that saves when it is told to. */
class SlowHost {
  readonly saved: [number | null, Partial<UnsentChange>][] = [];
  private readonly waiting: (() => void)[] = [];
  failure: unknown = null;

  async saveUnsent(conversation: number | null, change: UnsentChange) {
    await new Promise<void>((resolve) => this.waiting.push(resolve));
    if (this.failure !== null) throw this.failure;
    this.saved.push([conversation, Object.fromEntries(Object.entries(change).filter(([, value]) => value !== null))]);
  }

  async answer() {
    await until(() => this.waiting.length > 0);
    this.waiting.shift()?.();
    await new Promise((resolve) => setTimeout(resolve));
  }
}

/** The page after a restart of the app with this host. */
async function restarted(host: FakeHost): Promise<App> {
  const app = new App(host, { schedule: (callback) => callback() });
  await app.start();
  return app;
}

test("drafts, files and queued messages outlive a restart, each in its conversation", async () => {
  const { app, host } = await started();
  const [first, second] = app.conversations.all.map(({ id }) => id);
  if (first === undefined || second === undefined) throw new Error("no conversations");
  app.drafts.set(null, "Not begun");
  await app.open(first);
  app.drafts.set(first, "Half a thought");
  app.attachments.set(first, [file]);
  app.queue.add(first, "Later", [file]);
  await app.open(second);
  await until(async () => (await host.openConversation(first)).unsent.queue.length === 1);
  const reopened = await restarted(host);
  expect(reopened.drafts.get(null)).toBe("Not begun");
  await reopened.open(second);
  expect([reopened.drafts.get(second), reopened.attachments.get(second), reopened.queue.of(second)]).toEqual([
    "",
    [],
    [],
  ]);
  await reopened.open(first);
  expect([reopened.drafts.get(first), reopened.attachments.get(first)]).toEqual(["Half a thought", [file]]);
  expect([reopened.queue.of(first).map(({ text, files }) => ({ text, files })), reopened.queue.isHeld(first)]).toEqual([
    [{ text: "Later", files: [file] }],
    true,
  ]);
});

test("what was typed is newer than what a conversation opens with", async () => {
  const { app, host } = await started();
  const [first, second] = app.conversations.all.map(({ id }) => id);
  if (first === undefined || second === undefined) throw new Error("no conversations");
  await app.open(first);
  host.saveUnsent = () => new Promise(() => {});
  app.drafts.set(first, "Typed");
  await app.open(second);
  await app.open(first);
  expect(app.drafts.get(first)).toBe("Typed");
});

test("a message is sent before its draft is removed from the app", async () => {
  const { app, host } = await started();
  const calls: string[] = [];
  const { send, saveUnsent } = host;
  host.send = async (...rest) => {
    calls.push("send");
    const sent = await send.apply(host, rest);
    calls.push("sent");
    return sent;
  };
  host.saveUnsent = async (conversation, change) => {
    calls.push(`save ${change.text}`);
    await saveUnsent.call(host, conversation, change);
  };
  app.drafts.set(null, "Hello");
  await app.send("Hello");
  await until(() => calls.at(-1)?.startsWith("save") ?? false);
  expect(calls.indexOf("save ")).toBeGreaterThan(calls.indexOf("sent"));
  expect((await host.snapshot()).unsent.text).toBe("");
});

test("changes during a save are saved together, the last one last", async () => {
  const host = new SlowHost();
  const saver = new UnsentSaver(host, () => {});
  for (const text of ["a", "ab", "abc"]) saver.change(1, { text });
  await host.answer();
  saver.change(1, { text: "abcd" });
  saver.change(1, { files: [file] });
  await host.answer();
  expect(host.saved).toEqual([
    [1, { text: "abc" }],
    [1, { text: "abcd", files: [file] }],
  ]);
});

test("what could not be saved is told once and saved with the next change", async () => {
  const host = new SlowHost();
  const problems: unknown[] = [];
  const saver = new UnsentSaver(host, (error) => problems.push(error));
  host.failure = detailed("store", "Busy.");
  saver.change(1, { text: "a", files: [file] });
  await host.answer();
  saver.change(1, { text: "ab" });
  await host.answer();
  expect([host.saved, problems.length]).toEqual([[], 1]);
  host.failure = null;
  saver.change(2, { text: "x" });
  await host.answer();
  await host.answer();
  expect(host.saved).toEqual([
    [1, { text: "ab", files: [file] }],
    [2, { text: "x" }],
  ]);
});

test("a conversation that is gone for good is no problem", async () => {
  const host = new SlowHost();
  const problems: unknown[] = [];
  const saver = new UnsentSaver(host, (error) => problems.push(error));
  host.failure = detailed("notFound", "Gone.");
  saver.change(1, { text: "a" });
  await host.answer();
  expect(problems).toEqual([]);
});

test("a failure of a conversation that is gone hides no later one", async () => {
  const host = new SlowHost();
  const problems: unknown[] = [];
  const saver = new UnsentSaver(host, (error) => problems.push(error));
  host.failure = detailed("store", "Busy.");
  saver.change(5, { text: "a" });
  await host.answer();
  host.failure = detailed("notFound", "Gone.");
  saver.retry();
  await host.answer();
  host.failure = detailed("store", "Busy.");
  saver.change(6, { text: "b" });
  await host.answer();
  expect(problems.length).toBe(2);
  host.failure = null;
  saver.retry();
  await host.answer();
  expect(host.saved).toEqual([[6, { text: "b" }]]);
});

test("what is typed while a first message is sent stays with its conversation", async () => {
  const { app, host } = await started();
  const send = host.send.bind(host);
  host.send = async (...rest) => {
    const sent = await send(...rest);
    app.drafts.set(null, "Typed meanwhile");
    app.attachments.set(null, [file]);
    return sent;
  };
  await app.send("Hello");
  const { id } = app.thread;
  expect([app.drafts.get(id), app.attachments.get(id)]).toEqual(["Typed meanwhile", [file]]);
  expect([app.drafts.get(null), app.attachments.get(null)]).toEqual(["", []]);
});

test("a message that cannot be sent keeps all files, also too many", async () => {
  const { app, host } = await started();
  const files = (count: number) => Array.from({ length: count }, () => file);
  host.send = async () => {
    app.attachments.set(null, files(30));
    throw detailed("busy", "Busy.");
  };
  app.attachments.set(null, files(40));
  await app.send("Hello");
  expect(app.attachments.get(null).length).toBe(70);
  expect(app.toasts.all.map(({ kind }) => kind)).toEqual(["problem"]);
});

test("at most a hundred messages wait", async () => {
  const { app } = await started();
  for (let i = 0; i < 101; i++) app.queueMessage(1, `${i}`);
  expect(app.queue.of(1).length).toBe(100);
  expect(app.toasts.all.length).toBe(1);
});

test("after a reload, conversations show that their answers are being generated", async () => {
  const { app, host } = await started();
  host.pace = Infinity;
  await app.send("Tell me a long story.");
  const { id } = app.thread;
  if (id === null) throw new Error("no conversation");
  const reopened = await restarted(host);
  expect(reopened.thread.live.busy.has(id)).toBe(true);
  // An answer that ends before the app says that it is being generated has ended.
  const snapshot = host.snapshot.bind(host);
  host.snapshot = async () => {
    const old = await snapshot();
    host.pace = 0;
    await until(async () => (await snapshot()).answering.length === 0);
    return old;
  };
  const third = await restarted(host);
  expect(third.thread.live.busy.has(id)).toBe(false);
});

test("a long text is saved once for many keys", async () => {
  const saved: (string | null)[] = [];
  const saver = new UnsentSaver({ saveUnsent: async (_, { text }) => void saved.push(text) }, () => {});
  const long = "long ".repeat(20_000);
  saver.change(1, { text: "short" });
  await until(() => saved.length === 1);
  for (let key = 0; key < 20; key++) {
    saver.change(1, { text: `${long}${key}` });
    await new Promise((resolve) => setTimeout(resolve));
  }
  await until(() => saved.length === 2);
  expect(saved).toEqual(["short", `${long}19`]);
});
