// Mermaid's state diagrams, as flowcharts.

import { label, LIMITS, NotDrawable, type Flow, type FlowGroup, type FlowNode } from "./model";

const IGNORED = /^(?:classDef|class|style|accTitle|accDescr|hide empty description)\b/;
const ID = "[\\p{L}\\p{N}_.-]+?";
const TRANSITION = new RegExp(
  `^(\\[\\*\\]|${ID})(?::::[\\w-]+)?\\s*-->\\s*(\\[\\*\\]|${ID})(?::::[\\w-]+)?\\s*(?::\\s*(.*))?$`,
  "u",
);
const DESCRIBED = new RegExp(`^(${ID})\\s*:\\s*(.+)$`, "u");
const NAMED = new RegExp(`^state\\s+"([^"]*)"\\s+as\\s+(${ID})\\s*(\\{)?$`, "u");
const PLAIN = new RegExp(`^(?:state\\s+)?(${ID})\\s*(\\{|<<(?:fork|join|choice)>>)?$`, "u");

export function isStates(first: string): boolean {
  return /^stateDiagram(?:-v2)?$/.test(first);
}

export function parseStates(lines: readonly string[]): Flow {
  const parser = new StateParser();
  for (const line of lines.slice(1)) parser.statement(line);
  return parser.end();
}

class StateParser {
  private readonly flow: Flow = { type: "flow", direction: "TB", nodes: new Map(), edges: [], groups: new Map() };
  private readonly open: string[] = [];

  end(): Flow {
    if (this.open.length > 0) throw new NotDrawable("A state has no end.");
    if (this.flow.nodes.size === 0) throw new NotDrawable("There are no states.");
    return this.flow;
  }

  statement(line: string): void {
    const direction = /^direction\s+(TB|BT|LR|RL)$/.exec(line)?.[1];
    const transition = TRANSITION.exec(line);
    if (direction) {
      if (this.open.length === 0) this.flow.direction = direction as Flow["direction"];
    } else if (IGNORED.test(line)) return;
    else if (line === "}") {
      if (this.open.pop() === undefined) throw new NotDrawable("An end without a beginning.");
    } else if (transition) this.transition(transition[1] ?? "", transition[2] ?? "", transition[3] ?? "");
    else this.state(line);
  }

  private transition(from: string, to: string, text: string): void {
    if (this.flow.edges.length >= LIMITS.edges) throw new NotDrawable("There are too many transitions.");
    const ends = {
      from: from === "[*]" ? this.point("start") : this.node(from).id,
      to: to === "[*]" ? this.point("end") : this.node(to).id,
    };
    this.flow.edges.push({ ...ends, label: label(text), line: "solid", tail: "none", head: "arrow" });
  }

  private state(line: string): void {
    const named = NAMED.exec(line);
    const plain = PLAIN.exec(line);
    const described = DESCRIBED.exec(line);
    if (named) this.declare(named[2] ?? "", label(named[1] ?? ""), named[3]);
    else if (plain && plain[1] !== "note") this.declare(plain[1] ?? "", null, plain[2]);
    else if (described) this.node(described[1] ?? "").label = label(described[2] ?? "");
    else throw new NotDrawable("A line cannot be read.");
  }

  private declare(id: string, text: string[] | null, kind = ""): void {
    if (kind === "{") return this.begin(id, text);
    const node = this.node(id);
    if (text) node.label = text;
    if (kind === "<<choice>>") Object.assign(node, { shape: "diamond", label: [] });
    else if (kind !== "") Object.assign(node, { shape: "bar", label: [] });
  }

  private begin(id: string, text: string[] | null): void {
    if (this.flow.groups.size >= LIMITS.groups || this.flow.groups.has(id))
      throw new NotDrawable("Too many groups, or two of one name.");
    // A transition or a description may have created it as a node.
    const named = this.flow.nodes.get(id)?.label;
    this.flow.nodes.delete(id);
    this.flow.groups.set(id, { id, label: text ?? named ?? label(id), parent: this.open.at(-1) ?? null });
    this.open.push(id);
  }

  /** A state, or a group of states. */
  private node(id: string): FlowNode | FlowGroup {
    const existing = this.flow.groups.get(id) ?? this.flow.nodes.get(id);
    return existing ?? this.add({ id, label: label(id), shape: "rounded", group: this.open.at(-1) ?? null });
  }

  /** The start or end node of the group. */
  private point(shape: "start" | "end"): string {
    const group = this.open.at(-1) ?? null;
    const id = `[*] ${shape} ${group ?? ""}`;
    if (!this.flow.nodes.has(id)) this.add({ id, label: [], shape, group });
    return id;
  }

  private add(node: FlowNode): FlowNode {
    if (this.flow.nodes.size >= LIMITS.nodes) throw new NotDrawable("There are too many states.");
    this.flow.nodes.set(node.id, node);
    return node;
  }
}
