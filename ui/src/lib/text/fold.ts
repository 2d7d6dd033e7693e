// Text folded for a search: lower case, without accents, each white space as a space, with the place of each character in
// the original.

export interface Folded {
  text: string;
  /** The index in the original of a folded index. */
  origin(index: number): number;
}

const same = (index: number) => index;

export function fold(original: string): Folded {
  if (/^[\x00-\x7f]*$/.test(original)) return { text: original.toLowerCase().replace(/\s/g, " "), origin: same };
  let text = "";
  const origins: number[] = [];
  let at = 0;
  for (const character of original) {
    const plain = character
      .normalize("NFD")
      .replace(/[\u0300-\u036f]/g, "")
      .toLowerCase()
      .replace(/\s/g, " ");
    for (let i = 0; i < plain.length; i++) origins.push(at);
    text += plain;
    at += character.length;
  }
  origins.push(at);
  return { text, origin: (index) => origins[index] ?? at };
}

/** The folded indexes at which a folded query begins, without overlap, at most `most`. */
export function occurrences(text: string, query: string, most = Infinity): number[] {
  const found: number[] = [];
  if (query === "") return found;
  for (let at = text.indexOf(query); at >= 0 && found.length < most; at = text.indexOf(query, at + query.length))
    found.push(at);
  return found;
}
