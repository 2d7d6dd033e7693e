import { describe, expect, test } from "vitest";
import type { Adapter, AdapterChoice, Model, Preset } from "../../src/lib/host";
import { Compare, type Choice } from "../../src/lib/stores/compare.svelte";

const model = (id: string) => ({ id, problem: null }) as Model;
const adapter = (id: number, isBroken = false) =>
  ({ id, problem: isBroken ? { code: "fileInvalid", reason: { area: "detail", detail: "" } } : null }) as Adapter;
const preset = (id: string) => ({ id }) as Preset;

const BASE: Choice = { model: null, preset: null, adapters: [] };
const CHAT: Choice = { ...BASE, adapters: "chat" };

interface Around {
  models?: string[];
  /** Adapters that fit model `a`, newest first. */
  fitting?: Adapter[];
  /** Adapters of the conversation. */
  chosen?: AdapterChoice[];
}

/** A comparison in a conversation that model `a` answers. */
function comparison({ models = ["a"], fitting = [], chosen = [] }: Around) {
  const parts = {
    chatModel: model("a"),
    models: { all: models.map(model) },
    adapters: { of: (id: string | null) => (id === "a" ? fitting : []) },
    presets: { all: [preset("plain"), preset("creative")], chosen: preset("plain") },
    thread: { adapters: chosen },
  };
  return { parts, compare: new Compare(parts) };
}

test.each<[name: string, around: Around, expected: Choice[]]>([
  [
    "the newest usable adapter with the base model",
    { models: ["a", "b"], fitting: [adapter(3, true), adapter(2), adapter(1)] },
    [BASE, { ...BASE, adapters: [{ adapter: 2, scale: 1 }] }],
  ],
  [
    "the adapters of the conversation with the base model",
    { models: ["a", "b"], fitting: [adapter(2), adapter(1)], chosen: [{ adapter: 1, scale: 0.5 }] },
    [BASE, CHAT],
  ],
  ["another model without an adapter", { models: ["a", "b"] }, [CHAT, { ...BASE, model: "b" }]],
  [
    "another model if the adapter of the conversation does not fit",
    { models: ["b", "a"], chosen: [{ adapter: 9, scale: 1 }] },
    [CHAT, { ...BASE, model: "b" }],
  ],
  ["another preset with one model", {}, [CHAT, { ...CHAT, preset: "creative" }]],
])("comparison begins with %s", (_, around, expected) => {
  const { compare } = comparison(around);
  compare.toggle();
  expect(compare.choices).toEqual(expected);
  expect(compare.isReady).toBe(true);
});

describe("choices of the user", () => {
  test("are kept while the model is the same", () => {
    const { compare } = comparison({ models: ["a", "b"] });
    compare.toggle();
    compare.set(0, { preset: "creative" });
    const { choices } = compare;
    compare.toggle();
    expect(compare.isReady).toBe(false);
    compare.toggle();
    expect(compare.choices).toEqual(choices);
  });

  test("are replaced once one of their models has become the model of the conversation", () => {
    const { compare, parts } = comparison({ models: ["a", "b"] });
    compare.toggle();
    compare.set(0, { preset: "creative" });
    compare.toggle();
    parts.chatModel = model("b");
    compare.toggle();
    expect(compare.choices).toEqual([CHAT, { ...BASE, model: "a" }]);
    expect(compare.hasTwins).toBe(false);
  });
});
