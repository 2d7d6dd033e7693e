import { describe, expect, test } from "vitest";
import type { HostEvent, Message } from "../../src/lib/host";
import { detailed } from "../../src/lib/host/fake/problems";
import { adapterName } from "../../src/lib/chat/adapterName";
import { Live } from "../../src/lib/stores/live.svelte";
import { Toasts } from "../../src/lib/stores/toasts.svelte";
import { language } from "../../src/lib/text/language.svelte";
import { plain, textOf } from "../../src/lib/text/parts";
import { branchTitle } from "../../src/lib/text/title";
import { started, tell } from "./started";
import { until } from "./until";

const message = (id: number, change: Partial<Message> = {}): Message => ({
  id,
  conversation: 1,
  parent: null,
  role: "assistant",
  parts: [],
  state: { type: "waiting" },
  createdAt: 0,
  model: null,
  stats: null,
  dropped: null,
  adapters: [],
  comparison: null,
  better: false,
  rating: null,
  settings: null,
  edited: false,
  overrides: null,
  ...change,
});

const delta = (id: number, text: string): Extract<HostEvent, { type: "messageDelta" }> => ({
  type: "messageDelta",
  conversation: 1,
  message: id,
  kind: "text",
  text,
  tokens: 1,
  tokensPerSecond: 9,
  contextUsed: 211,
});

describe("a conversation", () => {
  test("that is new becomes the open one when it is answered", async () => {
    const { app } = await started("fresh");
    await app.send("What is the capital of France?");
    await until(() => app.thread.last?.message.state.type === "complete");
    expect(app.thread.path.map((node) => node.message.role)).toEqual(["user", "assistant"]);
    expect(textOf(app.thread.last?.message.parts ?? [])).toContain("Paris");
    expect(app.conversations.all[0]?.id).toBe(app.thread.id);
    expect(app.thread.busy).toBe(false);
  });

  test("refuses a message after one that was deleted meanwhile, whose text is the draft again", async () => {
    const { app } = await started();
    await app.open(2);
    const answer = app.thread.last?.message.id ?? 0;
    const deleting = app.host.deleteMessage(answer);
    await app.send("And then?");
    await deleting;
    expect(app.drafts.get(2)).toBe("And then?");
    expect(app.toasts.all.map(({ text }) => text)).toContain(
      "That message was deleted. Undo the deletion, or go on from another message.",
    );
  });

  test("asks before an unfinished edit is deleted with its message, and ends it", async () => {
    const { app } = await started();
    await app.open(2);
    const answer = app.thread.last?.message.id ?? 0;
    app.edits.begin(`answer:${answer}`, "before");
    app.edits.set(`answer:${answer}`, "after");
    await app.deletion.begin(answer);
    expect(app.deletion.question).toEqual({ message: answer, below: 0, losesEdit: true });
    await app.deletion.confirm();
    expect(app.thread.path.map((node) => node.message.id)).not.toContain(answer);
    expect([app.edits.changed, app.edits.get(`answer:${answer}`)]).toEqual([false, null]);
  });

  test("lists its deleted messages in the bin, where each is restored after the one before it", async () => {
    const { app } = await started();
    await app.open(2);
    const [question, answer] = app.thread.path.slice(-2).map((node) => node.message.id) as [number, number];
    const rest = app.thread.subtree(question).size;
    await app.thread.delete(answer);
    await app.thread.delete(question);
    await app.conversations.openBin();
    const listed = () => app.conversations.messageBin.map(({ id, count, conversation }) => [id, count, conversation]);
    expect(listed()).toEqual([
      [question, rest - 1, 2],
      [answer, 1, 2],
    ]);
    await expect(app.deletion.restore(2, answer)).rejects.toMatchObject({ code: "badRequest" });
    await app.open(1);
    await app.deletion.restore(2, question);
    expect(app.thread.id).toBe(2);
    await app.conversations.openBin();
    expect(listed()).toEqual([[answer, 1, 2]]);
  });

  test("gets the title of its original and a number as a branch", () => {
    expect(branchTitle("Bread", ["Bread"])).toBe("Bread (branch)");
    expect(branchTitle("Bread (branch)", ["Bread", "Bread (branch)"])).toBe("Bread (branch) 2");
    expect(branchTitle("Bread", ["Bread (branch)"])).toBe("Bread (branch) 2");
  });

  test("that the user leaves while sending does not reopen", async () => {
    const { app } = await started();
    const sending = app.send("What is the capital of France?");
    await app.open(2);
    await sending;
    expect(app.thread.id).toBe(2);
    expect(app.thread.path.length).toBe(2);
  });

  test("without a title or an adapter's name has the words of the window", async () => {
    const { app } = await started();
    const [first] = app.conversations.all;
    tell(app, { type: "conversationChanged", conversation: { ...first!, title: "" }, leaf: null });
    expect(app.conversations.title(first!.id)).toBe("New conversation");
    language.choose("de");
    expect(app.conversations.title(first!.id)).toBe("Neue Unterhaltung");
    expect(adapterName({ adapter: 1, name: "", scale: 0.5 })).toBe("gelöscht × 0,5");
    language.choose("en");
    expect(adapterName({ adapter: 1, name: "poems", scale: 1 })).toBe("poems");
  });

  test("that opens late does not replace a newer request", async () => {
    const { app } = await started();
    const first = app.open(1);
    const second = app.open(3);
    await Promise.all([first, second]);
    expect(app.thread.id).toBe(3);
  });

  test("keeps generating while another one is open", async () => {
    const { app } = await started();
    await app.send("Tell me a long story.");
    const id = app.thread.id ?? 0;
    expect(app.thread.live.busy.has(id)).toBe(true);
    await app.open(2);
    await until(() => !app.thread.live.busy.has(id));
    await app.open(id);
    expect(textOf(app.thread.last?.message.parts ?? [])).toContain("Paragraph 24.");
  });

  test("shows what an answer said as a thought once it is known to be one", async () => {
    const { app, host } = await started();
    const seen: string[] = [];
    await host.onEvent((event) => {
      if (event.type === "messageFolded") seen.push(textOf(event.message.parts));
    });
    await app.send("I wonder what the capital of France is.");
    await until(() => !app.thread.busy);
    const { parts } = app.thread.last?.message ?? { parts: [] };
    expect(parts.map((part) => part.type)).toEqual(["thinking", "text"]);
    expect(textOf(parts)).toMatch(/^The capital of France/);
    expect(seen).toEqual([""]);
  });

  test.each(["open", "select"] as const)(
    "is not busy with an answer that ends while the host returns it: %s",
    async (call) => {
      const { app, host } = await started();
      await app.open(call === "open" ? 2 : 1);
      const returned = await host.openConversation(1);
      const last = returned.messages.find(({ id }) => id === returned.leaf) as Message;
      const before: Message = { ...last, parts: plain("Ha"), state: { type: "streaming" } };
      let reply = () => {};
      host.openConversation = host.selectLeaf = () =>
        new Promise(
          (resolve) =>
            (reply = () =>
              resolve({ ...returned, messages: returned.messages.map((other) => (other === last ? before : other)) })),
        );
      const loading = call === "open" ? app.open(1) : app.thread.select(last.id);
      tell(app, { type: "messageChanged", message: { ...last, parts: plain("Half."), state: { type: "complete" } } });
      await new Promise((resolve) => setTimeout(resolve));
      reply();
      await loading;
      expect(app.thread.busy).toBe(false);
      expect(app.thread.last?.message).toMatchObject({ parts: plain("Half."), state: { type: "complete" } });
    },
  );

  test("that cannot be opened shows its problem", async () => {
    const { app } = await started();
    await app.open(777);
    expect(app.thread.problem).toMatchObject({ code: "notFound", reason: { type: "noConversation" } });
    await app.open(1);
    expect(app.thread.problem).toBeNull();
  });

  test("steps over the answers of a comparison as one version", async () => {
    const { app, host } = await started("fresh");
    const overrides = { model: null, preset: null, sampling: null };
    const { conversation, answers } = await host.compare(
      null,
      null,
      "What is the capital of France?",
      [],
      [
        { overrides, adapters: [] },
        { overrides, adapters: [] },
      ],
      { settings: app.thread.settings, systemPrompt: null, folder: null, adapters: [] },
    );
    const [first, second] = answers.map(({ id }) => id) as [number, number];
    const { answer } = await host.regenerate(first);
    await app.open(conversation.id);
    expect(app.thread.versions(answer.id)).toEqual({ ids: [second, answer.id], index: 1 });
    await app.thread.vote(first, true);
    for (const version of [first, second])
      expect(app.thread.versions(version)).toEqual({ ids: [first, answer.id], index: 0 });
    await app.thread.vote(first, false);
    await host.send(conversation.id, first, "And of Spain?");
    await app.open(conversation.id, second);
    expect(app.thread.versions(second)).toEqual({ ids: [first, answer.id], index: 0 });
  });

  test("that has continued keeps its branch when another compared answer is preferred", async () => {
    const { app, host } = await started("fresh");
    const overrides = { model: null, preset: null, sampling: null };
    const { conversation, answers } = await host.compare(
      null,
      null,
      "What is the capital of France?",
      [],
      [
        { overrides, adapters: [] },
        { overrides, adapters: [] },
      ],
      { settings: app.thread.settings, systemPrompt: null, folder: null, adapters: [] },
    );
    const [first, second] = answers.map(({ id }) => id) as [number, number];
    await app.open(conversation.id, second);
    await app.thread.vote(first, true);
    expect(app.thread.last?.message).toMatchObject({ id: first, better: true });
    await app.thread.select(second);
    const { answer } = await app.thread.send("And of Spain?", []);
    await app.thread.vote(first, false);
    await app.thread.vote(first, true);
    expect(app.thread.last?.message.id).toBe(answer.id);
    expect((await host.openConversation(conversation.id)).leaf).toBe(answer.id);
  });

  test("deleted elsewhere is closed", async () => {
    const { app } = await started();
    await app.open(2);
    tell(app, { type: "conversationRemoved", id: 2 });
    expect(app.thread.id).toBeNull();
    expect(app.conversations.title(2)).toBeNull();
  });
});

test("a message that was not sent becomes the draft again, before newer text", async () => {
  const { app } = await started();
  app.drafts.set(null, "/refuse me");
  const sending = app.send("/refuse me");
  app.drafts.set(null, "and this");
  await sending;
  expect(app.drafts.get(null)).toBe("/refuse me\nand this");
  expect(app.toasts.all[0]?.kind).toBe("problem");
});

describe("a streaming answer", () => {
  test("is shown once per frame with all received text", () => {
    const shown: string[] = [];
    const frames: (() => void)[] = [];
    const live = new Live(
      (_, stream) => shown.push(textOf(stream.parts)),
      (frame) => frames.push(frame),
    );
    for (const piece of ["a", "b", "c"]) live.grow(1, [], delta(1, piece));
    expect(frames.length).toBe(1);
    frames.pop()?.();
    live.grow(1, [], delta(1, "d"));
    frames.pop()?.();
    expect(shown).toEqual(["abc", "abcd"]);
  });

  test("retains text from events when the host returns an older state", () => {
    const live = new Live(
      () => {},
      (frame) => frame(),
    );
    live.grow(1, [], delta(1, "Hello"));
    expect(textOf(live.merge(message(1)).parts)).toBe("Hello");
    expect(live.busy.get(1)).toBe(1);
    const complete = message(1, { parts: plain("Hello, you"), state: { type: "complete" } });
    expect(live.merge(complete)).toBe(complete);
    expect(live.busy.size).toBe(0);
  });

  test("continues the saved text after a reload of the page", () => {
    const shown: string[] = [];
    const live = new Live(
      (_, stream) => shown.push(textOf(stream.parts)),
      (frame) => frame(),
    );
    live.grow(1, plain("Once upon"), delta(1, " a time"));
    expect(shown).toEqual(["Once upon a time"]);
  });
});

test("an answer that is continued while another conversation is open keeps its beginning", () => {
  const shown: string[] = [];
  const live = new Live(
    (_, stream) => shown.push(textOf(stream.parts)),
    (frame) => frame(),
  );
  live.merge(message(1, { parts: plain("Once upon"), state: { type: "streaming" } }));
  live.grow(1, [], delta(1, " a time"));
  expect(shown).toEqual(["Once upon a time"]);
});

describe("events of an answer that arrive before the command returns", () => {
  test("are not lost", async () => {
    const { app, host } = await started();
    const sent = {
      conversation: {
        id: 900,
        title: "x",
        createdAt: 0,
        updatedAt: 0,
        model: null,
        pinned: false,
        folder: null,
        tags: [],
      },
      user: message(1, { conversation: 900, role: "user", parts: plain("x"), state: { type: "complete" } }),
      answer: message(2, { conversation: 900, parent: 1 }),
    };
    host.send = async () => {
      tell(app, { ...delta(2, "Hi"), conversation: 900 });
      tell(app, {
        type: "messageChanged",
        message: message(2, { conversation: 900, parent: 1, parts: plain("Hi."), state: { type: "complete" } }),
      });
      return sent;
    };
    await app.send("x");
    expect(app.thread.last?.message).toMatchObject({ parts: plain("Hi."), state: { type: "complete" } });
    expect(app.thread.busy).toBe(false);
  });
});

test("at most three notes, without duplicates", () => {
  const toasts = new Toasts();
  for (const text of ["a", "b", "a", "c", "d"]) toasts.show({ kind: "note", text });
  expect(toasts.all.map((toast) => toast.text)).toEqual(["a", "c", "d"]);
});

test("a setting that cannot be saved is reverted", async () => {
  const { app, host } = await started();
  host.setSettings = async () => {
    throw detailed("store", "The disk is full.");
  };
  expect(await app.try(() => app.settings.change({ threads: 4 }))).toBe(false);
  expect(app.settings.value.threads).toBeNull();
  expect(app.toasts.all.at(-1)?.text).toBe("The disk is full.");
});

describe("what is being edited", () => {
  test("is not replaced when it is begun again, until it ends", async () => {
    const { app } = await started();
    await app.nameFolder();
    app.edits.set("folder:new", "Half a na");
    app.view = "settings";
    await app.nameFolder();
    expect(app.edits.get("folder:new")).toBe("Half a na");
    expect(app.edits.takesFocus("folder:new")).toBe(true);
    app.edits.end("folder:new");
    await app.nameFolder();
    expect(app.edits.get("folder:new")).toBe("");
  });

  test("is dropped by a restart only after a question", async () => {
    const { app, host } = await started();
    app.edits.begin("message:1", "A question");
    app.edits.begin("message:1", "A question");
    await app.restart();
    expect([app.confirmsRestart, host.restarts]).toEqual([false, 1]);
    app.edits.set("message:1", "A better question");
    await app.restart();
    expect([app.confirmsRestart, host.restarts]).toEqual([true, 1]);
    await app.restart();
    expect([app.confirmsRestart, host.restarts]).toEqual([false, 2]);
    app.edits.end("message:1");
    await app.restart();
    expect([app.confirmsRestart, host.restarts]).toEqual([false, 3]);
  });
});

describe("what failed", () => {
  const fails = (code: string) => () => Promise.reject(detailed(code, `It is ${code}.`));

  test("because a person cancelled it is a note, not a problem", async () => {
    const { app } = await started();
    expect(await app.try(fails("cancelled"))).toBe(false);
    expect(app.toasts.all.map(({ kind, text }) => [kind, text])).toEqual([["note", "It is cancelled."]]);
  });

  test("because Hearth was updated offers a restart, once", async () => {
    const { app, host } = await started();
    await app.try(fails("updated"));
    await app.try(fails("updated"));
    expect(app.toasts.all.map(({ kind, action }) => [kind, action?.label])).toEqual([["problem", "Restart Hearth"]]);
    app.toasts.all[0]?.action?.run();
    await until(() => host.restarts === 1);
  });
});
