// Equality of settings.

/**
 * A value as text: keys in order, without those that are `null`, floats of 32 bits as in the app.
 */
function canonical(value: unknown): unknown {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : Math.fround(value);
  if (Array.isArray(value)) return value.map(canonical);
  if (typeof value !== "object" || value === null) return value;
  const set = Object.entries(value).filter(([, field]) => field !== null);
  return Object.fromEntries(set.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, field]) => [key, canonical(field)]));
}

/** Whether two values are equal as settings. */
export function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(canonical(a)) === JSON.stringify(canonical(b));
}
