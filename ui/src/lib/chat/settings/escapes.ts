// Texts of one line: a line break is \n, a tab \t, a backslash \\.

/** A text as it is typed. */
export function escaped(text: string): string {
  return text.replace(/\\/g, "\\\\").replace(/\n/g, "\\n").replace(/\t/g, "\\t").replace(/\r/g, "\\r");
}

/** The text that was typed. */
export function unescaped(typed: string): string {
  const of: Record<string, string> = { n: "\n", t: "\t", r: "\r", "\\": "\\" };
  return typed.replace(/\\([ntr\\])/g, (_, letter: string) => of[letter] ?? "");
}
