// Notices that a text ends in a repetition.

/** Characters at the end that are looked at, so that the cost of a check is bounded. */
const WINDOW = 3000;
/** Characters that the repetition must fill. */
const MIN_LENGTH = 400;
/** Times that its period must occur. */
const MIN_TIMES = 8;

/** Whether a text ends with the same characters many times over, such as a sentence that is said again and again. */
export function endsRepeating(text: string): boolean {
  const end = text.slice(-WINDOW);
  const length = end.length;
  if (length < MIN_LENGTH) return false;
  // The prefix function of the reversed end: `borders[i]` is the longest border of its first i + 1 characters, which
  // therefore have the period i + 1 - borders[i].
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
