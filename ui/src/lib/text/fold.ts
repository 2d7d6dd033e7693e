// Text normalized for a search: lower case, without accents, white space as spaces. Indices map
// back to the original.

export interface Folded {
  text: string;
  /** Maps an index of the folded text to the original. */
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

/** Indices of non-overlapping occurrences of a folded query in folded text, at most `limit`. */
export function occurrences(text: string, query: string, limit = Infinity): number[] {
  const indices: number[] = [];
  if (query === "") return indices;
  for (let at = text.indexOf(query); at >= 0 && indices.length < limit; at = text.indexOf(query, at + query.length))
    indices.push(at);
  return indices;
}
