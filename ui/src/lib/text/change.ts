// The change between two texts: the text removed and the text inserted at one place.

export interface Change {
  start: number;
  removed: number;
  inserted: string;
}

/** The smallest change that turns a text into another. It divides no surrogate pair. */
export function changeOf(before: string, after: string): Change {
  const shorter = Math.min(before.length, after.length);
  let start = 0;
  while (start < shorter && before.charCodeAt(start) === after.charCodeAt(start)) start++;
  if (start > 0 && isHigh(before.charCodeAt(start - 1))) start--;
  let end = 0;
  while (
    end < shorter - start &&
    before.charCodeAt(before.length - 1 - end) === after.charCodeAt(after.length - 1 - end)
  )
    end++;
  if (end > 0 && isLow(before.charCodeAt(before.length - end))) end--;
  return { start, removed: before.length - end - start, inserted: after.slice(start, after.length - end) };
}

const isHigh = (unit: number) => unit >= 0xd800 && unit <= 0xdbff;
const isLow = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff;
