// Detects that a text ends in a repetition.

/** Number of characters at the end that are checked. It bounds the cost of a check. */
const WINDOW = 3000;
/** Minimum length of the repeated text. */
const MIN_LENGTH = 400;
/** Minimum number of repetitions of the period. */
const MIN_TIMES = 8;

/**
 * Whether a text ends with many repetitions of the same characters, such as a repeated sentence.
 */
export function endsRepeating(text: string): boolean {
  const end = text.slice(-WINDOW);
  const length = end.length;
  if (length < MIN_LENGTH) return false;
  // The prefix function of the reversed end: `borders[i]` is the longest border of its first i + 1
  // characters, which therefore have the period i + 1 - borders[i].
  const at = (i: number) => end.charCodeAt(length - 1 - i);
  const borders = new Uint16Array(length);
  for (let i = 1; i < length; i++) {
    let border = borders[i - 1] ?? 0;
    while (border > 0 && at(i) !== at(border)) border = borders[border - 1] ?? 0;
    if (at(i) === at(border)) border++;
    borders[i] = border;
    const period = i + 1 - border;
    if (i + 1 >= MIN_LENGTH && period * MIN_TIMES <= i + 1) return true;
  }
  return false;
}
