// Variables and names of saved prompts.

import { expect, test } from "vitest";
import { commandIn, nameOf, suggestedName } from "../../src/lib/stores/prompts.svelte";
import { filled, variables } from "../../src/lib/text/promptVariables";

test.each<[string, string[]]>([
  ["no variable", []],
  ["{{a}} and {{ b c }} and {{a}}", ["a", "b c"]],
  ["{a} {{}} {{ }} {{{x}}}", ["x"]],
  ["{{two\nlines}}", []],
  [`{{${"x".repeat(61)}}}`, []],
  ["{{__proto__}}", ["__proto__"]],
])("the variables of %j are %j", (text, names) => expect(variables(text)).toEqual(names));

test("values are inserted as they are", () => {
  expect(filled("{{a}}{{ a }}{{b}}", { a: "$1 {{b}}" })).toBe("$1 {{b}}$1 {{b}}{{b}}");
  expect(filled("{{toString}}", {})).toBe("{{toString}}");
});

test("many braces are read in time", () => {
  expect(variables("{{".repeat(100_000))).toEqual([]);
  expect(variables("{{ ".repeat(100_000))).toEqual([]);
  expect(variables(`{{${" ".repeat(100_000)}`)).toEqual([]);
});

test.each<[string, string | null]>([
  ["/", ""],
  ["/été-2_x", "été-2_x"],
  ["/a b", null],
  ["a/b", null],
  ["/a\n", null],
  ["/etc/passwd", null],
])("the command in %j is %j", (draft, command) => expect(commandIn(draft)).toBe(command));

test("names have no slash and no spaces", () => {
  expect(nameOf(" /code review ")).toBe("code-review");
  expect(suggestedName("Translate {{x}} this, please, now!")).toBe("translate-this-please");
  expect(suggestedName("…")).toBe("");
});
