import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { assumesObjects, schemaNote } from "../../src/lib/chat/settings/jsonSchema";

interface Case {
  about: string;
  schema: Record<string, unknown>;
  /** The schema that the engine uses, if it is another. */
  read?: Record<string, unknown>;
}

const file = new URL("../../../crates/protocol/tests/it/assumed_objects.json", import.meta.url);
const cases = JSON.parse(readFileSync(file, "utf8")) as Case[];

test("schemas are read as objects in the same cases as in the engine", () => {
  expect(cases.length).toBeGreaterThan(10);
  for (const { about, schema, read } of cases) expect(assumesObjects(schema), about).toBe(read !== undefined);
});

test("a note says what is assumed, also about a deeply nested schema, and none about text that is no schema", () => {
  expect(schemaNote('{"properties": {}}')).toContain("is read with");
  const deep = 6000;
  expect(schemaNote(`${'{"items":'.repeat(deep)}{"required": []}${"}".repeat(deep)}`)).toContain("is read with");
  for (const text of ["", "{", "[]", '{"type": "object", "properties": {}}']) expect(schemaNote(text), text).toBe(null);
});
