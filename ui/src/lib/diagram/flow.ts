// Mermaid's flowcharts.

import { label, LIMITS, NotDrawable, type Flow, type FlowNode, type Head, type Line, type Shape } from "./model";

const SHAPES: [open: string, close: string, shape: Shape][] = [
  ["(((", ")))", "doubleCircle"],
  ["((", "))", "circle"],
  ["([", "])", "stadium"],
  ["[[", "]]", "subroutine"],
  ["[(", ")]", "cylinder"],
  ["[/", "/]", "slanted"],
  ["[/", "\\]", "slanted"],
  ["[\\", "\\]", "slanted"],
  ["[\\", "/]", "slanted"],
  ["{{", "}}", "hexagon"],
  ["{", "}", "diamond"],
  ["[", "]", "rectangle"],
  ["(", ")", "rounded"],
  [">", "]", "flag"],
];
const ID = /\s*((?:(?!--|-\.|==|~~)[\p{L}\p{N}_./-])+)/uy;
const LINK =
  /\s*(?:(<|[xo](?=-[-.]|==)))?(?:-{2,}(?:([>-])|([xo])(?=[\s|]))|={2,}(?:([>=])|([xo])(?=[\s|]))|-\.+-(?:(>)|([xo])(?=[\s|]))?|~{3,})/y;
const LABELLED =
  /\s*(?:(<|[xo](?=-[-.]|==)))?(?:--(?![->])(.+?)-{2,}([->xo])|==(?![=>])(.+?)={2,}([=>xo])|-\.(?![.-])(.+?)\.+-([>xo])?)/y;
const PIPED = /\s*\|([^|]*)\|/y;
const IGNORED = /^(?:classDef|class|style|linkStyle|click|accTitle|accDescr|direction)\b/;
const HEADS: Record<string, Head> = { ">": "arrow", "<": "arrow", x: "cross", o: "circle" };

export function isFlow(first: string): boolean {
  return /^(?:graph|flowchart)(?:\s|;|$)/.test(first);
}

export function parseFlow(lines: readonly string[]): Flow {
  const [first = "", ...rest] = lines.flatMap(statements);
  const direction = /^(?:graph|flowchart)(?:\s+(TB|TD|BT|LR|RL|>|<|\^|v))?\s*$/.exec(first);
  if (!direction) throw new NotDrawable("The first line is not a flowchart's.");
  const parser = new FlowParser(direction[1] ?? "TB");
  for (const line of rest) parser.statement(line);
  return parser.end();
}

/** Splits a line into statements at semicolons outside quotes and brackets. */
function statements(line: string): string[] {
  if (!line.includes(";")) return [line];
  const parts: string[] = [];
  let depth = 0;
  let quoted = false;
  let start = 0;
  for (let at = 0; at < line.length; at++) {
    const character = line[at] ?? "";
    if (character === '"') quoted = !quoted;
    else if (!quoted && "[({".includes(character)) depth++;
    else if (!quoted && "])}".includes(character)) depth--;
    else if (character === ";" && !quoted && depth <= 0) {
      parts.push(line.slice(start, at));
      start = at + 1;
    }
  }
  return [...parts, line.slice(start)].map((part) => part.trim()).filter((part) => part !== "");
}

class FlowParser {
  private readonly flow: Flow;
  private readonly open: string[] = [];
  private text = "";
  private at = 0;

  constructor(direction: string) {
    const normalized = { TD: "TB", v: "TB", ">": "LR", "<": "RL", "^": "BT" }[direction] ?? direction;
    this.flow = {
      type: "flow",
      direction: normalized as Flow["direction"],
      nodes: new Map(),
      edges: [],
      groups: new Map(),
    };
  }

  end(): Flow {
    if (this.open.length > 0) throw new NotDrawable("A subgraph has no end.");
    if (this.flow.nodes.size === 0) throw new NotDrawable("There are no nodes.");
    return this.flow;
  }

  statement(line: string): void {
    const group = /^subgraph(?:\s+(.*))?$/.exec(line);
    if (group) this.beginGroup(group[1] ?? "");
    else if (/^end$/i.test(line)) {
      if (this.open.pop() === undefined) throw new NotDrawable("An end without a beginning.");
    } else if (!IGNORED.test(line)) this.chain(line);
  }

  private beginGroup(title: string): void {
    const named = /^([^\s["]+)\s*\[(.*)\]$/.exec(title);
    // An internal id, not text.
    const id = named?.[1] ?? (title.replace(/^"(.*)"$/, "$1") || `group ${this.flow.groups.size}`);
    if (this.flow.groups.size >= LIMITS.groups || this.flow.groups.has(id))
      throw new NotDrawable("Too many groups, or two of one name.");
    // An edge may have created it as a node.
    this.flow.nodes.delete(id);
    this.flow.groups.set(id, { id, label: label(named?.[2] ?? title), parent: this.open.at(-1) ?? null });
    this.open.push(id);
  }

  /** Parses a chain of edges: `A & B -- text --> C --> D`. */
  private chain(line: string): void {
    this.text = line;
    this.at = 0;
    let sources = this.nodes();
    while (this.at < line.length) {
      const link = this.link();
      const targets = this.nodes();
      for (const from of sources) for (const to of targets) this.edge({ ...link, from, to });
      sources = targets;
    }
  }

  private edge(edge: Flow["edges"][number]): void {
    if (this.flow.edges.length >= LIMITS.edges) throw new NotDrawable("There are too many edges.");
    this.flow.edges.push(edge);
  }

  private nodes(): string[] {
    const ids = [this.node()];
    while (this.read(/\s*&/y)) ids.push(this.node());
    this.read(/\s+/y);
    return ids;
  }

  private node(): string {
    const id = this.read(ID)?.[1];
    if (id === undefined) throw new NotDrawable("A node is missing.");
    const shape = this.shape();
    this.read(/:::[\w-]+/y);
    const existing = this.flow.nodes.get(id);
    if (this.flow.groups.has(id)) return id;
    if (!existing && this.flow.nodes.size >= LIMITS.nodes) throw new NotDrawable("There are too many nodes.");
    const node: FlowNode = existing ?? { id, label: label(id), shape: "rectangle", group: this.open.at(-1) ?? null };
    if (shape) Object.assign(node, shape);
    if (this.open.length > 0) node.group ??= this.open.at(-1) ?? null;
    this.flow.nodes.set(id, node);
    return id;
  }

  private shape(): Pick<FlowNode, "label" | "shape"> | null {
    if (this.text[this.at] === "@") throw new NotDrawable("A shape of another kind.");
    for (const [open, close, shape] of SHAPES) {
      if (!this.text.startsWith(open, this.at)) continue;
      const from = this.at + open.length;
      const quoted = /\s*"[^"]*"\s*/y;
      quoted.lastIndex = from;
      const inside = quoted.exec(this.text);
      const to = inside ? quoted.lastIndex : this.text.indexOf(close, from);
      if (to < 0 || !this.text.startsWith(close, to)) continue;
      this.at = to + close.length;
      return { label: label(this.text.slice(from, to)), shape };
    }
    return null;
  }

  private link(): Omit<Flow["edges"][number], "from" | "to"> {
    const start = this.at;
    const simple = this.read(LINK);
    if (simple) {
      const line = lineOf(this.text.slice(start, this.at));
      const text = this.read(PIPED)?.[1] ?? "";
      return {
        line,
        label: label(text),
        tail: HEADS[simple[1] ?? ""] ?? "none",
        head: HEADS[simple.slice(2).find((head) => head !== undefined) ?? ""] ?? "none",
      };
    }
    const labelled = this.read(LABELLED);
    if (!labelled) throw new NotDrawable("An edge cannot be read.");
    const [, tail = "", a, aHead, b, bHead, c, cHead] = labelled;
    return {
      line: b !== undefined ? "thick" : c !== undefined ? "dotted" : "solid",
      label: label(a ?? b ?? c ?? ""),
      tail: HEADS[tail] ?? "none",
      head: HEADS[aHead ?? bHead ?? cHead ?? ""] ?? "none",
    };
  }

  private read(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (match) this.at = pattern.lastIndex;
    return match;
  }
}

function lineOf(link: string): Line {
  if (link.includes("~")) return "none";
  return link.includes("=") ? "thick" : link.includes(".") ? "dotted" : "solid";
}
