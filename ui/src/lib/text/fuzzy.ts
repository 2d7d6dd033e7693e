// Fuzzy search for the command palette: every word of the query is a part of the text, or its letters in order.

export interface Match {
  score: number;
  /** Indices of the matched characters. */
  at: number[];
}

/** Where a word is in the text, the best place first: a beginning, the beginning of a word, a part, letters in order. */
function place(word: string, text: string): Match | null {
  if (text.startsWith(word)) return matched(100, 0, word.length);
  for (let from = text.indexOf(word); from >= 0; from = text.indexOf(word, from + 1)) {
    if (/[\s\-–/.,:(“"']/.test(text[from - 1] ?? " ")) return matched(80, from, word.length);
  }
  const inside = text.indexOf(word);
  if (inside >= 0) return matched(50, inside, word.length);
  return scattered(word, text);
}

function matched(score: number, from: number, length: number): Match {
  return { score, at: Array.from({ length }, (_, i) => from + i) };
}

/** The letters in order and not too far from each other. */
function scattered(word: string, text: string): Match | null {
  if (word.length < 2) return null;
  const at: number[] = [];
  let from = 0;
  for (const letter of word) {
    const next = text.indexOf(letter, from);
    if (next < 0) return null;
    at.push(next);
    from = next + 1;
  }
  const gaps = (at.at(-1) ?? 0) - (at[0] ?? 0) + 1 - word.length;
  return gaps > 2 * word.length ? null : { score: 25 - gaps / word.length - (at[0] === 0 ? 0 : 5), at };
}

/** Lower case of the same length, so that indices stay: the few characters that would become two stay as they are. */
function lower(text: string): string {
  const whole = text.toLowerCase();
  if (whole.length === text.length) return whole;
  return Array.from(text, (character) => {
    const one = character.toLowerCase();
    return one.length === character.length ? one : character;
  }).join("");
}

/**
 * The match of a query in a text; `null` if there is none. A word may also be in `others`, which
 * counts less. An empty query matches everything.
 */
export function fuzzy(query: string, text: string, others = ""): Match | null {
  const low = lower(text);
  const more = others.toLowerCase();
  let score = 0;
  const at = new Set<number>();
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const here = place(word, low);
    if (here) {
      score += here.score;
      for (const index of here.at) at.add(index);
    } else if (more.includes(word)) score += 20;
    else return null;
  }
  // Of two equal matches, the shorter text is meant.
  return { score: score - Math.min(text.length, 200) / 100, at: [...at].sort((a, b) => a - b) };
}
