// Variables of saved prompts: `{{name}}` in their text.

/** A variable with its spaces; longer text in braces is text. Its one repetition is bounded, so that any text is read in time. */
const VARIABLE = /\{\{([^{}\n]{1,60})\}\}/g;

/** The names of the variables, in the order of the text, each once. */
export function variables(text: string): string[] {
  return [...new Set([...text.matchAll(VARIABLE)].map(([, name]) => (name ?? "").trim()))].filter(
    (name) => name !== "",
  );
}

/** The text with values in place of its variables. */
export function filled(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(VARIABLE, (whole, name: string) =>
    Object.hasOwn(values, name.trim()) ? (values[name.trim()] ?? "") : whole,
  );
}
