import { describe, expect, test } from "vitest";
import {
  defaultBeginning,
  type TextFile,
  type UnsentCount,
  type UnsentDraft,
  type UnsentTokens,
} from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import type { App } from "../../src/lib/stores/app.svelte";
import { ContextFit } from "../../src/lib/stores/contextFit.svelte";
import { HeldKeys } from "../../src/lib/stores/heldKeys";
import { UnsentCounter } from "../../src/lib/stores/unsentCounter";
import { changeOf } from "../../src/lib/text/change";
import { estimateTokens } from "../../src/lib/text/tokens";
import { started } from "./started";
import { until } from "./until";

test.each([
  ["", 0],
  ["four", 1],
  ["a sentence of some words", 6],
  ["日本語の文", 4],
  ["한국어 text", 4],
])("the estimated tokens of %j are %i", (text, tokens) => {
  expect(estimateTokens(text)).toBe(tokens);
});

/** An app whose conversation is answered by Qwen3, which was trained for 40,960 tokens. */
async function withQwen(): Promise<{ app: App; host: FakeHost }> {
  const { app, host } = await started();
  await app.models.load("qwen3-0.6b");
  await until(() => app.contextFit.loaded === 8192);
  return { app, host };
}

describe("the context", () => {
  test("is compared with the conversation and the draft, less what an answer needs", async () => {
    const { app } = await withQwen();
    const fit = app.contextFit;
    expect(fit.use).toEqual({ used: 0, total: 8192, exact: true });
    await fit.measure("x".repeat(4 * 7936), []);
    expect([fit.draft, fit.needed, fit.overflow]).toEqual([7936, 7936, null]);
    await fit.measure("x".repeat(4 * 7936), [{ name: "", text: "word" }]);
    expect([fit.draft, fit.overflow, fit.reserved]).toEqual([7937, "draft", 256]);
    await app.send("What is the capital of France?");
    await until(() => !app.thread.busy && fit.use !== null && fit.use.used > 0);
    await fit.measure("x".repeat(4 * 7900), []);
    expect(fit.overflow).toBe("oldest");
    await fit.measure("", []);
    expect([fit.draft, fit.overflow]).toEqual([0, null]);
  });

  test("includes a message that was refused, after which a long draft is still reported", async () => {
    const { app } = await withQwen();
    const fit = app.contextFit;
    await app.send("x".repeat(4 * 7937));
    await until(() => app.thread.last?.message.state.type === "failed");
    expect(fit.use).toEqual({ used: 7937, total: 8192, exact: false });
    await fit.measure("word", []);
    expect([fit.needed, fit.exact]).toEqual([7938, true]);
    await fit.measure("x".repeat(4 * 7937), []);
    expect(fit.overflow).toBe("draft");
  });

  test("can be larger up to what the model was trained for", async () => {
    const { app } = await withQwen();
    const { contextFit } = app;
    expect([100, 8_000, 20_000, 40_000, 40_704, 40_705].map((prompt) => contextFit.larger(prompt))).toEqual([
      null,
      16_384,
      32_768,
      40_960,
      40_960,
      null,
    ]);
  });

  test("is made larger by the setting, if there is memory for it", async () => {
    const { app, host } = await withQwen();
    expect(app.contextFit.canFit(10_000)).toBe(false);
    await app.contextFit.enlarge(10_000);
    expect(host.planned.at(-1)?.context).toBe(16_384);
    expect(app.settings.value.context).toBe(16_384);
  });

  test("that would not fit into memory stays, and the largest that does is taken if it suffices", async () => {
    const { app, host } = await withQwen();
    const plan = host.plan.bind(host);
    const only = (context: number) =>
      (host.plan = async (model, load) => ({
        ...(await plan(model, load)),
        verdict: { type: "fitsWithLessContext", context },
        notices: [{ type: "contextTooLong", context: 16_384, fits: context }],
      }));
    only(9_000);
    await app.contextFit.enlarge(10_000);
    expect(app.settings.value.context).toBeNull();
    expect(app.toasts.all.at(-1)?.text).toContain("not enough memory for a context of 16,384 tokens. ");
    only(12_000);
    await app.contextFit.enlarge(10_000);
    expect(app.settings.value.context).toBe(12_000);
  });

  test("takes the newest of several counts of the draft", async () => {
    const { app } = await withQwen();
    const replies: ((tokens: UnsentTokens) => void)[] = [];
    const fit = new ContextFit(app, { count: () => new Promise((resolve) => replies.push(resolve)) });
    const both = [fit.measure("one", []), fit.measure("one two", [])];
    replies[1]?.({ conversation: 5, total: 7 });
    replies[0]?.({ conversation: 5, total: 6 });
    await Promise.all(both);
    expect([fit.use?.used, fit.draft, fit.needed, fit.exact]).toEqual([5, 2, 7, true]);
  });

  test("is an estimate without a loaded model, and if the draft cannot be counted", async () => {
    const { app, host } = await started("fresh");
    await app.contextFit.measure(" four words or so ", []);
    expect([app.contextFit.draft, app.contextFit.exact, host.counts]).toEqual([4, false, []]);
    await app.models.load("smollm2-135m-instruct");
    await until(() => app.contextFit.loaded !== null);
    await app.contextFit.measure("four words or so", []);
    expect(app.contextFit.exact).toBe(true);
    host.countUnsent = () => Promise.reject(new Error("died"));
    await app.contextFit.measure("four words or more", []);
    expect([app.contextFit.draft, app.contextFit.exact]).toEqual([5, false]);
  });

  test("follows an answer, and is counted after an edit and for another version", async () => {
    const { app, host } = await withQwen();
    const fit = app.contextFit;
    const sent = app.send("Tell me a long story");
    const used: number[] = [];
    await until(() => {
      if (app.thread.busy && fit.use) used.push(fit.use.used);
      return !app.thread.busy && (app.thread.last?.message.stats ?? null) !== null;
    });
    await sent;
    const answer = app.thread.last!.message;
    expect(used).toEqual(used.toSorted((a, b) => a - b));
    expect([fit.use?.used, fit.exact]).toEqual([answer.stats?.contextUsed, true]);
    await app.thread.editAnswer(answer.id, "A short story.", false);
    expect([fit.use?.used, fit.exact]).toEqual([5 + 4, false]);
    await fit.measure("", []);
    expect([fit.use?.used, fit.exact]).toEqual([5 + 4, true]);
    expect(host.counts.at(-1)).toMatchObject({ leaf: app.thread.last?.message.id, text: { inserted: "" } });
    await app.thread.select(answer.id);
    expect([fit.use?.used, fit.exact]).toEqual([answer.stats?.contextUsed, true]);
  });
});

describe("a change of a text", () => {
  test.each([
    ["", "", { start: 0, removed: 0, inserted: "" }],
    ["", "ab", { start: 0, removed: 0, inserted: "ab" }],
    ["abc", "abXc", { start: 2, removed: 0, inserted: "X" }],
    ["aaa", "aa", { start: 2, removed: 1, inserted: "" }],
    ["abc", "", { start: 0, removed: 3, inserted: "" }],
    ["a😀b", "a😁b", { start: 1, removed: 2, inserted: "😁" }],
    ["\u{1f600}", "\u{1fa00}", { start: 0, removed: 2, inserted: "\u{1fa00}" }],
  ])("from %j to %j is small and has whole characters", (before, after, expected) => {
    expect(changeOf(before, after)).toEqual(expected);
  });
});

describe("the draft", () => {
  const draft = (text: string, files: readonly TextFile[] = []) => ({
    conversation: null,
    leaf: null,
    text,
    files,
    fresh: defaultBeginning,
  });

  test("is counted by its changes, and in full if the worker does not know it", async () => {
    const { host } = await withQwen();
    const counter = new UnsentCounter(() => host);
    const files = [{ name: "a", text: "b" }];
    const long = "long ".repeat(1_000);
    await counter.count(draft(long, files));
    await counter.count(draft(`${long}x`, files));
    const revision = host.counts[0]!.text.revision;
    expect(host.counts.map(({ text, files }) => [text.base, text.inserted.length, files?.length])).toEqual([
      [null, 5_000, 1],
      [revision, 1, undefined],
    ]);
    // As of another page, which sent as many drafts.
    const other = new UnsentCounter(() => host);
    for (const text of ["other", "others"]) await other.count(draft(text));
    host.counts.length = 0;
    expect(await counter.count(draft(`${long}xy`, files))).toEqual({ conversation: 0, total: 1_251 + 2 });
    expect(host.counts.map(({ text }) => text.base)).toEqual([revision + 1, null]);
  });

  test("is counted one at a time, the newest next, and not at all beyond the limit", async () => {
    const answers: ((count: UnsentCount) => void)[] = [];
    const requests: UnsentDraft[] = [];
    const counter = new UnsentCounter(() => ({
      countUnsent: (request) => {
        requests.push(request);
        return new Promise((resolve) => answers.push(resolve));
      },
    }));
    const [first, second, third] = ["one", "one two", "one two three"].map((text) => counter.count(draft(text)));
    expect(await second).toBeNull();
    expect(requests.length).toBe(1);
    // The older text is not sent in full, since a newer one waits.
    answers[0]?.({ type: "unknown" });
    expect(await first).toBeNull();
    await until(() => answers.length === 2);
    answers[1]?.({ type: "counted", tokens: { conversation: 1, total: 3 } });
    expect(await third).toEqual({ conversation: 1, total: 3 });
    expect(await counter.count(draft("x".repeat(5 << 20)))).toBeNull();
    expect(requests.map(({ text }) => [text.base, text.inserted])).toEqual([
      [null, "one"],
      [null, "one two three"],
    ]);
  });

  test("waits until no key is held", () => {
    const keys = new HeldKeys();
    const runs: string[] = [];
    const key = (code: string) => ({ code, key: code, metaKey: false });
    keys.whenReleased(() => runs.push("free"));
    keys.press(key("KeyA"));
    keys.press(key("KeyB"));
    keys.whenReleased(() => runs.push("replaced"));
    keys.whenReleased(() => runs.push("newest"));
    keys.release(key("KeyB"));
    expect(runs).toEqual(["free"]);
    keys.release(key("KeyA"));
    expect(runs).toEqual(["free", "newest"]);
    keys.press(key("KeyA"));
    const cancel = keys.whenReleased(() => runs.push("cancelled"));
    cancel();
    keys.whenReleased(() => runs.push("left"));
    keys.releaseAll();
    keys.press({ code: "KeyC", metaKey: true });
    keys.whenReleased(() => runs.push("command"));
    expect(runs).toEqual(["free", "newest", "left", "command"]);
  });
});
