// JSON schemas as they are typed.

/** Most bytes of a schema. */
export const MAX_SCHEMA_BYTES = 65_536;

/** What is wrong with a schema; `null` means nothing that shows before it is used. */
export function schemaProblem(text: string): string | null {
  if (new TextEncoder().encode(text).length > MAX_SCHEMA_BYTES) return "It may have at most 64 KiB.";
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    return "It is not valid JSON yet, so it is not used.";
  }
  return typeof schema === "object" && schema !== null && !Array.isArray(schema) ? null : "It must be a JSON object.";
}
