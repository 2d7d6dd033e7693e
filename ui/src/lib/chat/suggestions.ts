// The suggestions of an empty conversation. The bundled model answers each of them well, in every
// language of the window only in English: their messages are the same in all languages.
//
// `tests/tests/it/first_minute.rs` asks the model, and compares the answer with what the file
// expects of it.

import { m } from "$messages";
import table from "./suggestions.json";

const texts: Record<string, () => string> = {
  chat_suggestion_capital: m.chat_suggestion_capital,
  chat_suggestion_gravity: m.chat_suggestion_gravity,
  chat_suggestion_python: m.chat_suggestion_python,
  chat_suggestion_weekdays: m.chat_suggestion_weekdays,
};

/** The suggestions, in their order. */
export function suggestions(): string[] {
  return table.flatMap(({ message }) => texts[message]?.() ?? []);
}
