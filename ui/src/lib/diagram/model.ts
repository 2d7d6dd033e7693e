// Parsed diagrams, before layout.

/** Larger diagrams are shown as their source. */
export const LIMITS = {
  characters: 10_000,
  line: 1_000,
  nodes: 100,
  edges: 200,
  groups: 30,
  actors: 30,
  steps: 300,
  label: 300,
  lines: 12,
};

/** The source cannot be drawn: unsupported kind, syntax error, or too large. */
export class NotDrawable extends Error {}

export type Shape =
  | "rectangle"
  | "rounded"
  | "stadium"
  | "circle"
  | "doubleCircle"
  | "diamond"
  | "hexagon"
  | "cylinder"
  | "subroutine"
  | "slanted"
  | "flag"
  | "start"
  | "end"
  | "bar";
export type Line = "solid" | "dotted" | "thick" | "none";
export type Head = "arrow" | "cross" | "circle" | "none";

export interface FlowNode {
  id: string;
  label: string[];
  shape: Shape;
  group: string | null;
}

export interface FlowEdge {
  from: string;
  to: string;
  label: string[];
  line: Line;
  tail: Head;
  head: Head;
}

export interface FlowGroup {
  id: string;
  label: string[];
  parent: string | null;
}

export interface Flow {
  type: "flow";
  direction: "TB" | "BT" | "LR" | "RL";
  nodes: Map<string, FlowNode>;
  edges: FlowEdge[];
  groups: Map<string, FlowGroup>;
}

export interface Actor {
  id: string;
  label: string[];
}

export type Step =
  | { type: "message"; from: string; to: string; text: string[]; dotted: boolean; tail: Head; head: Head | "open" }
  | { type: "note"; over: [string, string]; side: "left" | "right" | "over"; text: string[] }
  | { type: "begin"; kind: string; text: string[] }
  | { type: "else"; text: string[] }
  | { type: "end" };

export interface Sequence {
  type: "sequence";
  actors: Map<string, Actor>;
  steps: Step[];
}

export type Diagram = Flow | Sequence;

const NAMED: Record<string, string> = { quot: '"', amp: "&", lt: "<", gt: ">", nbsp: "\u00a0", apos: "'" };

/**
 * Splits a label into lines: line breaks and character references are decoded, other tags are text.
 */
export function label(source: string): string[] {
  const text = source
    .trim()
    .replace(/^"([\s\S]*)"$/, "$1")
    .replace(/^`([\s\S]*)`$/, "$1");
  if (text.length > LIMITS.label) throw new NotDrawable("A label is too long.");
  const lines = text.split(/<br\s*\/?>|\\n|\n/i).map((line) => references(line).trim());
  if (lines.length > LIMITS.lines) throw new NotDrawable("A label has too many lines.");
  return lines.every((line) => line === "") ? [] : lines;
}

/** Decodes `#quot;` and `#35;`, the references of Mermaid, and `&quot;`. */
function references(text: string): string {
  return text.replace(/[#&](?:#?(\d{1,7})|([a-z]{2,5}));/g, (reference, code, name) => {
    if (name !== undefined) return NAMED[name] ?? reference;
    const point = Number(code);
    return point >= 32 && point <= 0x10ffff ? String.fromCodePoint(point) : reference;
  });
}

/** The lines of a diagram's source, without comments and front matter. */
export function sourceLines(source: string): string[] {
  if (source.length > LIMITS.characters) throw new NotDrawable("The source is too long.");
  const lines = source
    .replace(/\r\n?/g, "\n")
    .replace(/^\s*---\n[\s\S]*?\n---\n/, "")
    .split("\n");
  const statements = lines.map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("%%"));
  if (statements.some((line) => line.length > LIMITS.line)) throw new NotDrawable("A line is too long.");
  return statements;
}
