import { describe, expect, test } from "vitest";
import { FakeHost } from "../../src/lib/host/fake";
import type { App } from "../../src/lib/stores/app.svelte";
import { ContextFit } from "../../src/lib/stores/contextFit.svelte";
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
    expect(fit.use).toEqual({ used: 0, total: 8192 });
    await fit.measure("x".repeat(4 * 7936), []);
    expect([fit.draft, fit.needed, fit.overflow]).toEqual([7936, 7936, null]);
    await fit.measure("x".repeat(4 * 7936), [{ name: "", text: "word" }]);
    expect([fit.draft, fit.overflow]).toEqual([7937, "draft"]);
    await app.send("What is the capital of France?");
    await until(() => !app.thread.busy && fit.use !== null && fit.use.used > 0);
    await fit.measure("x".repeat(4 * 7900), []);
    expect(fit.overflow).toBe("oldest");
    await fit.measure("", []);
    expect([fit.draft, fit.overflow]).toEqual([0, null]);
  });

  test("is compared with the draft alone after a message that was refused", async () => {
    const { app } = await withQwen();
    const fit = app.contextFit;
    await app.send("x".repeat(4 * 7937));
    await until(() => app.thread.last?.message.state.type === "failed");
    expect(fit.use).toBeNull();
    await fit.measure("x".repeat(4 * 7936), []);
    expect(fit.overflow).toBeNull();
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
    const { app } = await started("fresh");
    const counts: ((tokens: number) => void)[] = [];
    const fit = new ContextFit(app, () => new Promise((resolve) => counts.push(resolve)));
    const both = [fit.measure("one", []), fit.measure("one two", [])];
    counts[1]?.(2);
    counts[0]?.(1);
    await Promise.all(both);
    expect(fit.draft).toBe(2);
  });
});
