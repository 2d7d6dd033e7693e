import { readFileSync } from "node:fs";
import { afterEach, expect, test } from "vitest";
import { language } from "../../src/lib/text/language.svelte";
import { problemText } from "../../src/lib/text/problem";

afterEach(() => language.choose("en"));

/** The codes of the protocol, as they arrive. */
function codes(): string[] {
  const source = readFileSync(new URL("../../../crates/protocol/src/messages.rs", import.meta.url), "utf8");
  const variants = /pub enum ProblemCode \{([^}]*)\}/.exec(source)?.[1] ?? "";
  return [...variants.matchAll(/^\s+([A-Z])(\w+),$/gm)].map(([, first = "", rest = ""]) => first.toLowerCase() + rest);
}

const message = "/x/a.gguf: Permission denied. Check its permissions.";

test.each([
  ["en", message],
  ["de", `Die Datei konnte nicht gelesen werden. (${message})`],
  ["es", `No se pudo leer el archivo. (${message})`],
  ["zh-CN", `无法读取文件。（${message}）`],
])("a problem in %s", (locale, text) => {
  language.choose(locale);
  expect(problemText({ code: "fileUnreadable", message })).toBe(text);
});

test("every code has its own headline, and an unknown code none", () => {
  language.choose("de");
  const headlines = codes().map((code) => problemText({ code, message: "x" }).replace(" (x)", ""));
  expect(headlines.length).toBeGreaterThan(20);
  expect(headlines).not.toContain("x");
  expect(new Set(headlines).size).toBe(headlines.length);
  expect(problemText({ code: "ofTomorrow", message })).toBe(message);
});
