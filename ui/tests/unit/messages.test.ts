// Messages: every language has each of them, with the same inputs, and nothing that is shown is
// left out.

import { readdirSync, readFileSync } from "node:fs";
import { locales } from "$messages-runtime";
import { expect, test } from "vitest";
import { untranslated } from "../../scripts/untranslated.mjs";
import { bestOf } from "../../src/lib/text/language.svelte";

type Message = string | { declarations: string[]; selectors: string[]; match: Record<string, string> }[];
type Messages = Record<string, Message>;

const FOLDER = new URL("../../messages/", import.meta.url);
const LOCALES = readdirSync(FOLDER).sort();
const FILES = readdirSync(new URL("en/", FOLDER)).sort();

function read(locale: string, file: string): Messages {
  return JSON.parse(readFileSync(new URL(`${locale}/${file}`, FOLDER), "utf8")) as Messages;
}

/** Inputs of a message, by name. */
function inputs(message: Message): string[] {
  if (typeof message === "string")
    return [...new Set([...message.matchAll(/\{(\w+)\}/g)].map(([, name]) => name ?? ""))].sort();
  return [
    ...new Set(
      message.flatMap(({ declarations }) =>
        declarations.filter((declaration) => declaration.startsWith("input ")).map((one) => one.slice(6)),
      ),
    ),
  ].sort();
}

test("the folders are the locales", () => {
  expect(LOCALES).toEqual(locales.filter((locale) => (locale as string) !== "ar-XB").sort());
  for (const locale of LOCALES) expect(readdirSync(new URL(`${locale}/`, FOLDER)).sort(), locale).toEqual(FILES);
});

test.each(FILES)("%s has the same messages with the same inputs in every language", (file) => {
  const english = read("en", file);
  for (const locale of LOCALES) {
    const messages = read(locale, file);
    expect(Object.keys(messages).sort(), locale).toEqual(Object.keys(english).sort());
    for (const [key, message] of Object.entries(messages)) {
      expect(inputs(message), `${locale} ${key}`).toEqual(inputs(english[key] ?? ""));
      for (const text of typeof message === "string"
        ? [message]
        : message.flatMap(({ match }) => Object.values(match))) {
        expect(text.trim(), `${locale} ${key}`).not.toBe("");
      }
      // A plural form that a list of forms forgets would show the key.
      if (typeof message !== "string")
        for (const { match } of message) expect(Object.keys(match).at(-1), `${locale} ${key}`).toMatch(/=\*$/);
    }
  }
});

test("nothing that is shown is left out", () => {
  expect(untranslated().map(({ path, line, text }) => `${path}:${line}: ${text}`)).toEqual([]);
});

test("no key is in two files", () => {
  const keys = FILES.flatMap((file) => Object.keys(read("en", file)));
  expect(keys.filter((key, i) => keys.indexOf(key) !== i)).toEqual([]);
});

test.each([
  [["de-AT", "en"], "de"],
  [["fr", "es-MX"], "es"],
  [["zh-Hans-CN"], "zh-CN"],
  [["ar-XB", "fr"], "en"],
  [[], "en"],
])("of the languages %j it shows %s", (tags, locale) => expect(bestOf(tags)).toBe(locale));
