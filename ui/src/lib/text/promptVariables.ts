// Variables of saved prompts: `{{name}}` in their text.

/**
 * A variable, with spaces around its name. The length of the name is bounded, so that matching
 * takes linear time.
 */
const VARIABLE = /\{\{([^{}\n]{1,60})\}\}/g;

/** Distinct names of the variables, in the order of the text. */
export function variables(text: string): string[] {
  return [...new Set([...text.matchAll(VARIABLE)].map(([, name]) => (name ?? "").trim()))].filter(
    (name) => name !== "",
  );
}

/** The text with its variables replaced by values. */
export function filled(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(VARIABLE, (variable, name: string) =>
    Object.hasOwn(values, name.trim()) ? (values[name.trim()] ?? "") : variable,
  );
}
