// JSON schemas as they are typed.

import { m } from "$messages";

/** Most bytes of a schema. */
export const MAX_SCHEMA_BYTES = 65_536;

/** The error in a schema. `null` means that none can be found before the schema is used. */
export function schemaProblem(text: string): string | null {
  if (new TextEncoder().encode(text).length > MAX_SCHEMA_BYTES) return m.chatset_schema_size();
  let schema: unknown;
  try {
    schema = JSON.parse(text);
  } catch {
    return m.chatset_schema_invalid();
  }
  return typeof schema === "object" && schema !== null && !Array.isArray(schema) ? null : m.chatset_schema_object();
}
