// Fuzzy search for the command palette: each word of the query must be a substring or a subsequence
// of the text.

export interface Match {
  score: number;
  /** Indices of the matched characters. */
  at: number[];
}

/**
 * The best match of a word: at the start of the text, at the start of a word, as a substring, or as
 * a subsequence.
 */
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

/** Matches the letters as a subsequence with small gaps. */
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

/**
 * Lower case of the same length, so that indices stay valid: characters whose lower case is longer
 * are unchanged.
 */
function lower(text: string): string {
  const lowered = text.toLowerCase();
  if (lowered.length === text.length) return lowered;
  return Array.from(text, (character) => {
    const lowered = character.toLowerCase();
    return lowered.length === character.length ? lowered : character;
  }).join("");
}

/**
 * The match of a query in a text; `null` if there is none. A word may also occur in `others`, with
 * a lower score. An empty query matches everything.
 */
export function fuzzy(query: string, text: string, others = ""): Match | null {
  const lowered = lower(text);
  const loweredOthers = others.toLowerCase();
  let score = 0;
  const at = new Set<number>();
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const match = place(word, lowered);
    if (match) {
      score += match.score;
      for (const index of match.at) at.add(index);
    } else if (loweredOthers.includes(word)) score += 20;
    else return null;
  }
  // Of two equal matches, the shorter text ranks first.
  return { score: score - Math.min(text.length, 200) / 100, at: [...at].sort((a, b) => a - b) };
}
