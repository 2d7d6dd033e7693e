// The state of the page when events, replies and failures arrive in an unusual order.

import { describe, expect, test } from "vitest";
import { FakeHost } from "../../src/lib/host/fake";
import { detailed } from "../../src/lib/host/fake/problems";
import type { Host, HostEvent, Message, Sent } from "../../src/lib/host";
import { Announcements } from "../../src/lib/stores/announcements.svelte";
import { App } from "../../src/lib/stores/app.svelte";
import { Live } from "../../src/lib/stores/live.svelte";
import { Toasts } from "../../src/lib/stores/toasts.svelte";
import { joined, plain, textOf } from "../../src/lib/text/parts";
import { started, tell } from "./started";

/** A reply that the test gives. */
function deferred<T>(): { reply: Promise<T>; give: (value: T) => void; fail: (problem: unknown) => void } {
  let give: (value: T) => void = () => {};
  let fail: (problem: unknown) => void = () => {};
  const reply = new Promise<T>((resolve, reject) => ([give, fail] = [resolve, reject]));
  return { reply, give, fail };
}

const refused = detailed("store", "The disk is full.");
const soon = () => new Promise((resolve) => setTimeout(resolve));

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

const delta = (text: string, kind: "text" | "thinking" = "text"): Extract<HostEvent, { type: "messageDelta" }> => ({
  type: "messageDelta",
  conversation: 1,
  message: 1,
  kind,
  text,
  tokens: 1,
  tokensPerSecond: 9,
  contextUsed: 211,
});

describe("a name", () => {
  test("that is saved late does not undo what happened to the run meanwhile", async () => {
    const { app, host } = await started();
    const [run] = app.runs.all;
    if (!run) throw new Error("The scene has no run.");
    const { reply, give } = deferred<void>();
    host.renameRun = () => reply;
    const renaming = app.runs.rename(run.id, "New name");
    const now = { ...run, name: "New name", updatedAt: 7, state: { type: "stopped" } } as unknown as typeof run;
    tell(app, { type: "runChanged", run: now });
    give();
    await renaming;
    expect(app.runs.get(run.id)).toEqual(now);
  });

  test("is the one that the app made of it", async () => {
    const { app, host } = await started();
    host.renameConversation = async (id) => {
      const conversation = app.conversations.get(id);
      if (conversation)
        tell(app, { type: "conversationChanged", conversation: { ...conversation, title: "Two words" }, leaf: null });
    };
    await app.conversations.rename(2, "Two \u202e words");
    expect(app.conversations.title(2)).toBe("Two words");
  });
});

describe("a reply that is older than an event", () => {
  test("brings nothing back at the start", async () => {
    const host = new FakeHost(null);
    const app = new App(host);
    const snapshot = await host.snapshot();
    const { reply, give } = deferred<typeof snapshot>();
    host.snapshot = () => reply;
    const starting = app.start();
    await soon();
    const [first, second] = snapshot.conversations as [
      (typeof snapshot.conversations)[0],
      (typeof snapshot.conversations)[0],
    ];
    tell(app, { type: "conversationRemoved", id: first.id });
    tell(app, { type: "conversationChanged", conversation: { ...second, title: "Newer" }, leaf: null });
    tell(app, { type: "foldersChanged", folders: [] });
    tell(app, { type: "modelsChanged", models: snapshot.models.slice(1) });
    tell(app, { type: "modelState", state: { type: "none" } });
    give(snapshot);
    await starting;
    expect(app.conversations.get(first.id)).toBeNull();
    expect(app.conversations.title(second.id)).toBe("Newer");
    expect(app.folders.all).toEqual([]);
    expect(app.models.all).toEqual(snapshot.models.slice(1));
    expect(app.models.state).toEqual({ type: "none" });
  });

  test.each<
    [
      name: string,
      command: keyof Host,
      load: (app: App) => Promise<unknown>,
      event: (listed: never) => HostEvent,
      shown: (app: App) => unknown,
    ]
  >([
    [
      "models",
      "rescanModels",
      (app) => app.models.rescan(),
      (models) => ({ type: "modelsChanged", models }),
      (app) => app.models.all,
    ],
    [
      "downloads",
      "downloads",
      (app) => app.downloads.load(),
      (downloads) => ({ type: "downloadsChanged", downloads }),
      (app) => app.downloads.all,
    ],
    [
      "datasets",
      "datasets",
      (app) => app.datasets.load(),
      (datasets) => ({ type: "datasetsChanged", datasets }),
      (app) => app.datasets.all,
    ],
    [
      "adapters",
      "adapters",
      (app) => app.adapters.load(),
      (adapters) => ({ type: "adaptersChanged", adapters }),
      (app) => app.adapters.all,
    ],
    [
      "prompts",
      "savedPrompts",
      (app) => app.prompts.load(),
      (prompts) => ({ type: "promptsChanged", prompts }),
      (app) => app.prompts.all,
    ],
    [
      "presets",
      "presets",
      (app) => app.presets.load(),
      () => ({ type: "presetsChanged", presets: { presets: [], broken: [] } }),
      (app) => app.presets.all,
    ],
  ])("does not replace the list of %s", async (name, command, load, event, shown) => {
    const { app, host } = await started(name === "prompts" ? "organized" : "downloads");
    const old = await (host[command] as () => Promise<unknown>).call(host);
    const { reply, give } = deferred<unknown>();
    Object.assign(host, { [command]: () => reply });
    const loading = load(app);
    tell(app, event([] as never));
    give(old);
    await loading;
    expect(shown(app)).toEqual([]);
  });

  test("does not bring back a run", async () => {
    const { app, host } = await started();
    const old = await host.runs();
    const [removed, changed] = old as [(typeof old)[0], (typeof old)[0]];
    const { reply, give } = deferred<typeof old>();
    host.runs = () => reply;
    const loading = app.runs.load();
    tell(app, { type: "runRemoved", id: removed.id });
    tell(app, { type: "runChanged", run: { ...changed, name: "Newer" } });
    give(old);
    await loading;
    expect(app.runs.get(removed.id)).toBeNull();
    expect(app.runs.get(changed.id)?.name).toBe("Newer");
  });

  test("does not open a conversation that was deleted meanwhile", async () => {
    const { app, host } = await started();
    const opened = await host.openConversation(2);
    const { reply, give } = deferred<typeof opened>();
    host.openConversation = () => reply;
    const opening = app.open(2);
    tell(app, { type: "conversationRemoved", id: 2 });
    give(opened);
    await opening;
    expect(app.thread.id).toBeNull();
    expect(app.thread.opening).toBe(false);
  });

  test("switches no branch of a conversation that was left", async () => {
    const { app, host } = await started();
    const opened = await host.openConversation(2);
    const { reply, give } = deferred<typeof opened>();
    host.openConversation = (id) => (id === 2 ? reply : FakeHost.prototype.openConversation.call(host, id));
    const selected: number[] = [];
    host.selectLeaf = async (id) => (selected.push(id), opened);
    const opening = app.open(2, 987_654);
    await soon();
    app.newConversation();
    give(opened);
    await opening;
    expect(selected).toEqual([]);
  });

  test("does not replace a conversation in the list", async () => {
    const { app, host } = await started();
    const send = host.send.bind(host);
    host.send = async (...args) => {
      const sent = await send(...args);
      const listed = app.conversations.get(sent.conversation.id);
      if (listed)
        tell(app, { type: "conversationChanged", conversation: { ...listed, title: "Renamed meanwhile" }, leaf: null });
      return sent;
    };
    await app.open(2);
    await app.send("Say: Yes.");
    expect(app.conversations.title(2)).toBe("Renamed meanwhile");
  });
});

test("a reply does not list a conversation that was deleted meanwhile", async () => {
  const { app, host } = await started();
  const send = host.send.bind(host);
  host.send = async (...rest) => {
    const sent = await send(...rest);
    tell(app, { type: "conversationRemoved", id: sent.conversation.id });
    return sent;
  };
  await app.send("Hello");
  expect(app.conversations.all.some(({ title }) => title === "Hello")).toBe(false);
});

test("a slow list of adapters delays no message", async () => {
  const { app, host } = await started();
  host.renameAdapter = () => new Promise(() => {});
  void app.host.renameAdapter(1, "x");
  await app.send("Hello");
  expect(app.thread.id).not.toBeNull();
});

test("a reply that includes an event is not undone by it", async () => {
  const { app, host } = await started();
  const newest = await host.datasets();
  host.revision = async () => 7;
  host.datasets = async () => newest;
  const loading = app.datasets.load();
  app.handle({ type: "datasetsChanged", datasets: [], revision: 7 });
  await loading;
  expect(app.datasets.all).toEqual(newest);
});

test("changes of one thing reach the app in their order, whichever commands make them", async () => {
  const { app, host } = await started();
  await app.open(2);
  const requests: string[] = [];
  const replies = Array.from({ length: 6 }, () => deferred<void>());
  const reply = (name: string) => replies[requests.push(name) - 1]!.reply;
  host.pinConversation = (_, pinned) => reply(`pin ${pinned}`);
  host.setTags = () => reply("tags");
  host.rateAnswer = (_, thumb) => reply(`rate ${thumb}`);
  const { setConversationSettings, applyPreset } = host;
  host.setConversationSettings = (...rest) => reply("slider").then(() => setConversationSettings.apply(host, rest));
  host.applyPreset = (...rest) => reply("preset").then(() => applyPreset.apply(host, rest));
  const preset = app.presets.all.find(({ values }) => values.maxTokens === null);
  if (!preset) throw new Error("no preset");
  const changes = [
    app.conversations.pin(2, true),
    app.conversations.pin(2, false),
    app.conversations.setTags(2, ["a"]),
    app.thread.rate(1, "up", null),
    app.thread.setSettings({ ...app.thread.settings, maxTokens: 7 }),
    app.presets.apply(preset.id),
  ];
  for (const [at, { give }] of replies.entries()) {
    await soon();
    expect(requests.length).toBe(at + 1);
    give();
  }
  await Promise.all(changes);
  expect(requests).toEqual(["pin true", "pin false", "tags", "rate up", "slider", "preset"]);
  expect([app.thread.settings.maxTokens, (await host.openConversation(2)).settings.maxTokens]).toEqual([null, null]);
});

test("a deletion that waits for an answer to stop delays no command and undoes none", async () => {
  const { app, host } = await started();
  await app.open(2);
  const message = app.thread.last!.message.id;
  const stopped = deferred<void>();
  const { deleteMessage } = host;
  host.deleteMessage = (id) => deleteMessage.call(host, id).then((deleted) => stopped.reply.then(() => deleted));
  const deletion = app.thread.delete(message);
  await app.open(1);
  await app.open(2);
  await app.thread.setSettings({ ...app.thread.settings, maxTokens: 7 });
  stopped.give();
  await deletion;
  expect(app.thread.settings.maxTokens).toBe(7);
  expect(app.thread.path.map((node) => node.message.id)).not.toContain(message);
});

describe("settings", () => {
  test("of two changes keep the one that was saved, whichever failed", async () => {
    const { app, host } = await started();
    const saved: (number | null)[][] = [];
    const replies = [deferred<void>(), deferred<void>()];
    host.setSettings = (settings) => {
      saved.push([settings.threads, settings.textSize]);
      return replies[saved.length - 1]!.reply;
    };
    const first = app.try(() => app.settings.change({ threads: 4 }));
    const second = app.try(() => app.settings.change({ textSize: 110 }));
    expect([app.settings.value.threads, app.settings.value.textSize]).toEqual([4, 110]);
    replies[0]!.fail(refused);
    expect(await first).toBe(false);
    expect([app.settings.value.threads, app.settings.value.textSize]).toEqual([null, 110]);
    await soon();
    replies[1]!.give();
    expect(await second).toBe(true);
    // The second does not save what the first could not.
    expect(saved).toEqual([
      [4, 100],
      [null, 110],
    ]);
    expect([app.settings.value.threads, app.settings.value.textSize]).toEqual([null, 110]);
  });

  test("of a conversation are saved in their order, and shown as they were saved last", async () => {
    const { app, host } = await started();
    await app.open(2);
    const replies = [deferred<void>(), deferred<void>(), deferred<void>()];
    const requests: (number | null)[] = [];
    host.setConversationSettings = (_, { maxTokens }) => {
      requests.push(maxTokens);
      return replies[requests.length - 1]!.reply;
    };
    const changes = [1, 2, 3].map((maxTokens) =>
      app.try(() => app.thread.setSettings({ ...app.thread.settings, maxTokens })),
    );
    await soon();
    expect(requests).toEqual([1]);
    replies[0]!.give();
    replies[1]!.fail(refused);
    replies[2]!.fail(refused);
    expect(await Promise.all(changes)).toEqual([true, false, false]);
    expect(requests).toEqual([1, 2, 3]);
    expect(app.thread.settings.maxTokens).toBe(1);
  });

  test("that choose adapters are those that were saved last", async () => {
    const { app, host } = await started();
    await app.open(2);
    const replies = [deferred<void>(), deferred<void>()];
    let requests = 0;
    host.setConversationAdapters = () => replies[requests++]!.reply;
    const changes = [1, 2].map((adapter) => app.try(() => app.thread.setAdapters([{ adapter, scale: 1 }])));
    replies[0]!.fail(refused);
    replies[1]!.give();
    expect(await Promise.all(changes)).toEqual([false, true]);
    expect(app.thread.adapters).toEqual([{ adapter: 2, scale: 1 }]);
  });
});

describe("an answer that grew while the page was loaded", () => {
  function harness() {
    const shown: string[] = [];
    return {
      shown,
      live: new Live(
        (_, stream) => shown.push(textOf(stream.parts)),
        (frame) => frame(),
      ),
    };
  }

  test("goes on from its whole text", () => {
    const { shown, live } = harness();
    live.grow(1, [], delta(" time there"));
    const opened = live.merge(message(1, { parts: plain("Once upon a time there"), state: { type: "streaming" } }));
    expect(textOf(opened.parts)).toBe("Once upon a time there");
    live.grow(1, [], delta(" was"));
    expect(shown.at(-1)).toBe("Once upon a time there was");
  });

  test("has what came after the reply was made", () => {
    const { shown, live } = harness();
    for (const piece of [" a", " time", " there"]) live.grow(1, [], delta(piece));
    const opened = live.merge(message(1, { parts: plain("Once upon a time"), state: { type: "streaming" } }));
    expect(textOf(opened.parts)).toBe("Once upon a time there");
    live.grow(1, [], delta(" was"));
    expect(shown.at(-1)).toBe("Once upon a time there was");
  });

  test("keeps its beginning when another of its states is told", () => {
    const { live } = harness();
    live.merge(message(1));
    live.grow(1, [], delta("Once"));
    expect(textOf(live.merge(message(1, { parts: plain("On"), state: { type: "streaming" } })).parts)).toBe("Once");
  });

  test("stays a thought that it became, and is whole then", () => {
    const { shown, live } = harness();
    live.grow(1, [], delta("see. "));
    const thought: Message["parts"] = [{ type: "thinking", text: "Let me see." }];
    live.fold(message(1, { parts: thought, state: { type: "streaming" } }));
    // A reply that is older.
    expect(live.merge(message(1, { parts: plain("Let me see. "), state: { type: "streaming" } })).parts).toEqual(
      thought,
    );
    live.grow(1, [], delta("Paris."));
    expect(shown).toEqual(["see. ", "", "Paris."]);
    expect(live.merge(message(1, { parts: thought, state: { type: "streaming" } })).parts).toEqual([
      ...thought,
      ...plain("Paris."),
    ]);
  });

  test("is forgotten with its conversation", () => {
    const { live } = harness();
    live.grow(1, [], delta("Once"));
    live.drop(1);
    expect(live.speed(1)).toBeNull();
  });

  test.each([
    ["abc", "cd", "abcd"],
    ["abc", "abc", "abc"],
    ["abc", "xy", "abcxy"],
    ["", "xy", "xy"],
    ["aaa", "aab", "aaab"],
    ["abc", "", "abc"],
  ])("%j with %j is %j", (parts, tail, expected) => {
    expect(joined(plain(parts), plain(tail))).toEqual(plain(expected));
  });

  test("has its thoughts apart", () => {
    const parts: Message["parts"] = [{ type: "thinking", text: "Hm, so" }];
    expect(
      joined(parts, [
        { type: "thinking", text: "so it is" },
        { type: "text", text: "Yes" },
      ]),
    ).toEqual([
      { type: "thinking", text: "Hm, so it is" },
      { type: "text", text: "Yes" },
    ]);
  });
});

test("two messages sent at once keep the events of both", async () => {
  const { app, host } = await started();
  const sent = (conversation: number, id: number): Sent => ({
    conversation: {
      id: conversation,
      title: "x",
      createdAt: 0,
      updatedAt: 0,
      model: null,
      pinned: false,
      folder: null,
      tags: [],
    },
    user: message(id, { conversation, role: "user", parts: plain("x"), state: { type: "complete" } }),
    answer: message(id + 1, { conversation, parent: id }),
  });
  const replies = [deferred<Sent>(), deferred<Sent>()];
  let requests = 0;
  host.send = () => replies[requests++]!.reply;
  const first = app.send("one");
  app.newConversation();
  const second = app.send("two");
  tell(app, {
    type: "messageChanged",
    message: message(21, { conversation: 920, parent: 20, parts: plain("Yes."), state: { type: "complete" } }),
  });
  replies[0]!.give(sent(910, 10));
  await first;
  expect(app.thread.sending).toBe(true);
  replies[1]!.give(sent(920, 20));
  await second;
  expect(app.thread.sending).toBe(false);
  expect(app.thread.last?.message).toMatchObject({ id: 21, state: { type: "complete" } });
});

describe("announcements", () => {
  test("of one moment are all said", async () => {
    const announcements = new Announcements();
    announcements.say("One.");
    announcements.say("Two.");
    expect(announcements.text).toBe("One. Two.");
    await soon();
    announcements.say("Three.");
    expect(announcements.text).toBe("Three.");
    await soon();
    announcements.say("Three.");
    expect(announcements.text).toBe("Three.\u00a0");
  });
});

describe("toasts", () => {
  test("with problems are all kept, once each, and none displaces another kind", () => {
    const toasts = new Toasts();
    const texts = () => toasts.all.map(({ text }) => text);
    for (const text of ["a", "b", "c", "d", "b"]) toasts.show({ kind: "problem", text });
    for (const text of ["1", "2", "3", "4"]) toasts.show({ kind: "note", text });
    expect(texts()).toEqual(["a", "c", "d", "b", "2", "3", "4"]);
    for (let i = 0; i < 30; i++) toasts.show({ kind: "problem", text: `p${i}` });
    expect(texts().filter((text) => text.startsWith("p")).length).toBe(20);
    expect(texts()).toContain("4");
    toasts.dismissProblems();
    expect(texts()).toEqual(["2", "3", "4"]);
  });

  test("about the store go when it can be written again", async () => {
    const { app } = await started();
    tell(app, { type: "storeLocked", locked: true });
    expect(app.toasts.all.map(({ kind }) => kind)).toEqual(["problem"]);
    tell(app, { type: "storeLocked", locked: false });
    expect(app.toasts.all.map(({ kind }) => kind)).toEqual(["note"]);
  });
});
