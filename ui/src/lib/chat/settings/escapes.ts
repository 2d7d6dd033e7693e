// Escapes text for a single-line field: a line break is \n, a tab \t, a backslash \\.

/** Escapes a text for its field. */
export function escaped(text: string): string {
  return text.replace(/\\/g, "\\\\").replace(/\n/g, "\\n").replace(/\t/g, "\\t").replace(/\r/g, "\\r");
}

/** Reads a typed text. */
export function unescaped(typed: string): string {
  const escaped: Record<string, string> = { n: "\n", t: "\t", r: "\r", "\\": "\\" };
  return typed.replace(/\\([ntr\\])/g, (_, letter: string) => escaped[letter] ?? "");
}
