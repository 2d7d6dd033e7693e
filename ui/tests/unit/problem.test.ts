import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { asProblem, type Problem } from "../../src/lib/host";
import { language } from "../../src/lib/text/language.svelte";
import { problemText } from "../../src/lib/text/problem";

afterEach(() => language.choose("en"));

/** The codes of the protocol, as they arrive. */
function codes(): string[] {
  const source = readFileSync(new URL("../../../crates/protocol/src/problem/mod.rs", import.meta.url), "utf8");
  const variants = /pub enum ProblemCode \{([^}]*)\}/.exec(source)?.[1] ?? "";
  return [...variants.matchAll(/^\s+([A-Z])(\w+),$/gm)].map(([, first = "", rest = ""]) => first.toLowerCase() + rest);
}

const detail = "/x/a.gguf: Permission denied. Check its permissions.";
const withDetail = (code: string, detail: string): Problem => ({ code, reason: { area: "detail", detail } });

test.each([
  ["en", detail],
  ["de", `Die Datei konnte nicht gelesen werden. (${detail})`],
  ["es", `No se pudo leer el archivo. (${detail})`],
  ["zh-CN", `无法读取文件。（${detail}）`],
])("the text of a library in %s", (locale, text) => {
  language.choose(locale);
  expect(problemText(withDetail("fileUnreadable", detail))).toBe(text);
});

test("every code has its own headline, and an unknown code none", () => {
  language.choose("de");
  const headlines = codes().map((code) => problemText(withDetail(code, "x")).replace(" (x)", ""));
  expect(headlines.length).toBeGreaterThan(20);
  expect(headlines).not.toContain("x");
  expect(new Set(headlines).size).toBe(headlines.length);
  expect(problemText(withDetail("ofTomorrow", detail))).toBe(detail);
});

test("a problem with data is a sentence in the language of the window", () => {
  const problem: Problem = {
    code: "noDevice",
    reason: { area: "load", type: "noSuchDevice", name: "gpu7", known: ["cpu", "gpu0"] },
  };
  expect(problemText(problem)).toBe("There is no device “gpu7”. Choose one of: cpu, gpu0.");
  language.choose("de");
  const text = problemText(problem);
  expect(text).toContain("gpu7");
  expect(text).toContain("cpu, gpu0");
  expect(text).not.toContain("There is");
});

test("whatever is thrown is a problem", () => {
  const problem = withDetail("fileUnreadable", detail);
  expect(asProblem(problem)).toBe(problem);
  expect(asProblem("no command")).toEqual(withDetail("internal", "no command"));
  expect(asProblem(new Error("no command"))).toEqual(withDetail("internal", "no command"));
  expect(asProblem({ code: "store" })).toEqual(withDetail("internal", "[object Object]"));
});
