import { expect, test } from "vitest";
import { parseBias, typedBias } from "../../src/lib/chat/settings/bias";
import { effective, note } from "../../src/lib/chat/settings/effects";
import { escaped, unescaped } from "../../src/lib/chat/settings/escapes";
import {
  defaultOf,
  differs,
  groups,
  parse,
  shown,
  textProblem,
  valueOf,
  withValue,
} from "../../src/lib/chat/settings/knobs";
import { same } from "../../src/lib/text/same";
import { FakeHost } from "../../src/lib/host/fake";
import { defaultChatSettings, type Model } from "../../src/lib/host";

const model = async (): Promise<Model> => {
  const usable = (await new FakeHost(null).snapshot()).models.find(({ problem }) => problem === null);
  if (!usable) throw new Error("no model");
  return usable;
};

const knobs = groups.flatMap((group) => group.knobs);

test("every sampling parameter has a knob, or is the temperature", () => {
  const keys = new Set<string>(knobs.map(({ key }) => key));
  expect(keys.size).toBe(knobs.length);
  expect(Object.keys(defaultChatSettings.sampling).filter((key) => !keys.has(key))).toEqual(["temperature"]);
});

test("a knob is set, differs from the default of the model, and is reset", async () => {
  const sampling = (await model()).sampling;
  for (const knob of knobs) {
    const inherited = defaultOf(sampling, knob);
    expect(differs(defaultChatSettings, sampling, knob)).toBe(false);
    const other =
      knob.kind === "switch"
        ? !inherited
        : knob.kind === "number"
          ? knob.max === inherited
            ? knob.min
            : knob.max
          : knob.kind === "texts"
            ? ["x"]
            : [{ id: 1, bias: null }];
    const set = withValue(defaultChatSettings, knob, other);
    expect(valueOf(set, knob)).toEqual(other);
    expect([knob.key, differs(set, sampling, knob)]).toEqual([knob.key, true]);
    if (inherited !== null) expect(differs(withValue(set, knob, inherited), sampling, knob)).toBe(false);
    expect(withValue(set, knob, null)).toEqual(defaultChatSettings);
  }
});

test("floats of 32 bits are the same as those that were typed", () => {
  expect(same(0.1234567891, Math.fround(0.1234567891))).toBe(true);
  expect(same(0.1, 0.2)).toBe(false);
  expect(same(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER - 2)).toBe(false);
  expect(shown(9007199254740991)).toBe("9007199254740991");
  expect(parse({ min: 0, max: 1 }, "0,5")).toEqual({ value: 0.5 });
});

test("texts are escaped and read back", () => {
  for (const text of ["", "\n", "\\n", "a\tb\\", "\r\n\\\\n", "ünï\u{1f600}"])
    expect(unescaped(escaped(text))).toBe(text);
  expect(escaped("\\\n")).toBe("\\\\\\n");
  expect(textProblem({ key: "stop", maxBytes: 4 }, "ééé")).not.toBeNull();
  expect(textProblem({ key: "bannedStrings", maxBytes: 4 }, "\ufffd")).not.toBeNull();
});

test("biases are typed and read back", () => {
  for (const bias of [
    { text: " a\n", bias: -1.5 },
    { text: "12", bias: null },
    { id: 4294967295, bias: 0 },
  ])
    expect(parseBias(typedBias(bias), 256)).toEqual({ value: bias });
  for (const [by, token, bias] of [
    ["text", "", "1"],
    ["text", "a", ""],
    ["text", "a", "NaN"],
    ["text", "a", "1001"],
    ["text", "a".repeat(257), "1"],
    ["id", "-1", "1"],
    ["id", "1.5", "1"],
    ["id", "4294967296", "1"],
    ["id", "", "1"],
  ] as const)
    expect([token, "problem" in parseBias({ by, token, bias }, 256)]).toEqual([token, true]);
});

test("a group says why it has no effect", async () => {
  const defaults = effective((await model()).sampling, defaultChatSettings);
  expect(note("filters", defaults)).toBeNull();
  expect(note("filters", { ...defaults, mirostat: true })).toContain("Mirostat");
  expect(note("filters", { ...defaults, mirostat: true, temperature: 0 })).toContain("temperature 0");
  expect(note("mirostat", { ...defaults, mirostat: true })).toContain("On");
  expect(note("xtc", { ...defaults, xtcProbability: 1, xtcThreshold: 0.6 })).toContain("above 0.5");
  expect(note("penalties", { ...defaults, repeatLastN: 0 })).toContain("window");
  expect(note("dry", { ...defaults, dryMultiplier: 1, dryLastN: 0 })).toContain("window");
  expect(note("dynatemp", { ...defaults, dynatempRange: 0.5 })).toBeNull();
  expect(note("seed", { ...defaults, temperature: 0 })).toContain("seed");
  expect(note("bans", { ...defaults, temperature: 0 })).toBeNull();
});
