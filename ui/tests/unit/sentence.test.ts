import { readFileSync } from "node:fs";
import { m } from "$messages";
import { afterEach, expect, test, vi } from "vitest";
import { language } from "../../src/lib/text/language.svelte";
import { sentence } from "../../src/lib/text/sentence";

/** Messages of this test, beside the messages of the window. */
vi.mock("$messages", async (compiled) => {
  const module = await compiled<typeof import("$messages")>();
  const own = {
    sample_shown: ({ type: _, ...inputs }: Record<string, unknown>) =>
      Object.entries(inputs)
        .map(([name, input]) => `${name} is ${input as string}`)
        .join(", "),
    buffer_kv_cache: ({ layer }: Record<string, unknown>) => `the KV cache of layer ${layer as string}`,
    place: () => "a struct",
  };
  return { ...module, m: { ...module.m, ...own } };
});

afterEach(() => language.choose("en"));

const detail = { code: "fileUnreadable", reason: { area: "detail", detail: "Gone." } };
const noDevice = { code: "noDevice", reason: { area: "load", type: "noSuchDevice", name: "gpu7", known: ["cpu"] } };

const shown = (fields: object) => sentence("sample", { type: "shown", ...fields });

const cases: [what: string, fields: object, text: string][] = [
  ["a text, as it is", { path: "/x/{layer}.gguf" }, "path is /x/{layer}.gguf"],
  ["bytes", { bytes: 1_250_000_000, neededBytes: 512 }, "bytes is 1.3 GB, neededBytes is 512 B"],
  ["numbers", { tokens: 131_072, off: 0.125 }, "tokens is 131,072, off is 0.125"],
  ["a boolean", { kept: true }, "kept is true"],
  ["nothing", { left: null }, "left is "],
  ["a list", { names: ["a", "b", "c"] }, "names is a, b, c"],
  ["a list of numbers", { lines: [7, 1200] }, "lines is 7, 1,200"],
  ["a list of sizes", { leftBytes: [2000, 3000] }, "leftBytes is 2 kB, 3 kB"],
  ["an empty list", { names: [] }, "names is "],
  ["a nested value", { buffer: { type: "kvCache", layer: 1234 } }, "buffer is the KV cache of layer 1,234"],
  ["a nested struct", { place: { path: "x" } }, "place is a struct"],
  ["a problem", { cause: detail }, "cause is Gone."],
  ["a problem with data", { cause: noDevice }, "cause is There is no device “gpu7”. Choose one of: cpu."],
];

test.each(cases)("the sentence of a value with %s", (_, fields, text) => {
  expect(shown(fields)).toBe(text);
});

test.each([
  ["de", "tokens is 131.072, bytes is 1,3 GB"],
  ["es", "tokens is 131.072, bytes is 1,3 GB"],
  ["zh-CN", "tokens is 131,072, bytes is 1.3 GB"],
])("numbers are formatted in %s", (locale, text) => {
  language.choose(locale);
  expect(shown({ tokens: 131_072, bytes: 1_250_000_000 })).toBe(text);
});

test.each([
  ["en", 1, "1 day left"],
  ["en", 1200, "1,200 days left"],
  ["de", 1, "Noch 1 Tag"],
  ["de", 1200, "Noch 1.200 Tage"],
])("in %s, the form of a plural depends on the number %s", (locale, count, text) => {
  language.choose(locale);
  const value = { type: "left", count };
  expect(sentence("chat_bin_days", value)).toBe(text);
});

test("a problem in a value is shown as one alone", () => {
  language.choose("de");
  expect(shown({ cause: detail })).toBe("cause is Die Datei konnte nicht gelesen werden. (Gone.)");
});

test("a value without a message is shown with its key and data", () => {
  const value = { type: "ofTomorrow", area: "load", n: 1 };
  expect(sentence("problem", value)).toBe(`problem_load_of_tomorrow ${JSON.stringify(value)}`);
  const circle: { type: string; self?: object } = { type: "ofTomorrow" };
  circle.self = circle;
  expect(sentence("sample", circle)).toBe("sample_of_tomorrow");
});

test.each(["problems", "sentences"])("every message of %s.json is compiled", (file) => {
  const source = readFileSync(new URL(`../../messages/en/${file}.json`, import.meta.url), "utf8");
  const keys = Object.keys(JSON.parse(source) as object);
  const compiled = m as unknown as Record<string, unknown>;
  expect(keys.filter((key) => typeof compiled[key] !== "function")).toEqual([]);
});
