/**
 * `name`, or the first of `name 2`, `name 3` and so on that is not taken, in any case. The app
 * numbers the names of runs and adapters likewise.
 */
export function uniqueName(name: string, taken: readonly string[]): string {
  const others = new Set(taken.map((other) => other.toLowerCase()));
  let unique = name;
  for (let n = 2; others.has(unique.toLowerCase()); n++) unique = `${name} ${n}`;
  return unique;
}
