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
  return isObject(schema) ? null : m.chatset_schema_object();
}

type Schema = Record<string, unknown>;

/** Keywords that choose the type of a value. */
const CHOOSE_TYPE = ["type", "$ref", "enum", "const", "anyOf", "oneOf", "allOf"];

/** The assumption that Hearth makes about a schema. `null` means none. */
export function schemaNote(text: string): string | null {
  if (schemaProblem(text) !== null) return null;
  return assumesObjects(JSON.parse(text) as Schema) ? m.chatset_schema_assumed() : null;
}

/**
 * Whether a schema or a subschema has `properties` or `required` and chooses no type, so that it is read as an object.
 * It is `assume_objects` of `hearth_protocol`.
 */
export function assumesObjects(root: Schema): boolean {
  // A list, since a schema can be nested more deeply than functions can.
  const left: { schema: Schema; hasType: boolean }[] = [{ schema: root, hasType: false }];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const { schema, hasType } = next;
    const ofObjects = "properties" in schema || "required" in schema;
    if (!hasType && ofObjects && !CHOOSE_TYPE.some((keyword) => keyword in schema)) return true;
    for (const [keyword, value] of Object.entries(schema)) {
      // A `type` also applies to the alternatives and parts beside it.
      const isSameValue = ["anyOf", "oneOf", "allOf"].includes(keyword);
      const parts = subschemas(keyword, value);
      // The `type` of a part of `allOf` applies to the other parts, too.
      const hasTypedPart = keyword === "allOf" && parts.some((part) => "type" in part);
      const typed = hasTypedPart || (isSameValue && (hasType || "type" in schema));
      left.push(...parts.map((part) => ({ schema: part, hasType: typed })));
    }
  }
  return false;
}

/** The subschemas in the value of a keyword. */
function subschemas(keyword: string, value: unknown): Schema[] {
  switch (keyword) {
    case "properties":
    case "patternProperties":
    case "$defs":
    case "definitions":
      return isObject(value) ? Object.values(value).filter(isObject) : [];
    case "anyOf":
    case "oneOf":
    case "allOf":
    case "items":
    case "prefixItems":
    case "additionalItems":
    case "additionalProperties":
      return [value].flat().filter(isObject);
    default:
      return [];
  }
}

function isObject(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
