// Mermaid's sequence diagrams.

import { label, LIMITS, NotDrawable, type Head, type Sequence, type Step } from "./model";

const IGNORED = /^(?:activate|deactivate|destroy|links?|properties|details|accTitle|accDescr)\b/;
const PARTICIPANT = /^(?:create\s+)?(?:participant|actor)\s+(.+?)(?:\s+as\s+(.+))?$/;
const MESSAGE = /^(.+?)\s*(<<-->>|<<->>|-->>|->>|--\)|-\)|--x|-x|-->|->)\s*[+-]?\s*([^:]+?)\s*:\s*(.*)$/;
const NOTE = /^note\s+(left of|right of|over)\s+([^:,]+?)(?:\s*,\s*([^:]+?))?\s*:\s*(.*)$/i;
const FRAME = /^(loop|alt|opt|par|critical|break|rect|box)(?:\s+(.*))?$/;
const ELSE = /^(?:else|and|option)(?:\s+(.*))?$/;

export function isSequence(first: string): boolean {
  return first === "sequenceDiagram";
}

export function parseSequence(lines: readonly string[]): Sequence {
  const parser = new SequenceParser();
  for (const line of lines.slice(1)) parser.statement(line.replace(/;$/, ""));
  return parser.end();
}

class SequenceParser {
  private readonly sequence: Sequence = { type: "sequence", actors: new Map(), steps: [] };
  /** Frames that are open, and whether each is drawn. */
  private readonly open: boolean[] = [];
  private numbered = false;
  private messages = 0;

  end(): Sequence {
    if (this.open.length > 0) throw new NotDrawable("A frame has no end.");
    if (this.sequence.actors.size === 0) throw new NotDrawable("There are no participants.");
    return this.sequence;
  }

  statement(line: string): void {
    const participant = PARTICIPANT.exec(line);
    const note = NOTE.exec(line);
    const frame = FRAME.exec(line);
    const other = ELSE.exec(line);
    if (/^autonumber\b/.test(line)) this.numbered = true;
    else if (IGNORED.test(line)) return;
    else if (participant) this.actor(participant[1] ?? "", participant[2]);
    else if (note) this.note(note);
    else if (line === "end") this.endFrame();
    else if (frame) this.beginFrame(frame[1] ?? "", frame[2] ?? "");
    else if (other && this.open.at(-1)) this.step({ type: "else", text: label(other[1] ?? "") });
    else this.message(line);
  }

  private message(line: string): void {
    const [, from, arrow = "", to, text] = MESSAGE.exec(line) ?? [];
    if (from === undefined || to === undefined) throw new NotDrawable("A line cannot be read.");
    const number = this.numbered ? `${++this.messages}. ` : "";
    const head: Head | "open" = arrow.endsWith("x")
      ? "cross"
      : arrow.endsWith(")")
        ? "open"
        : arrow.endsWith(">>")
          ? "arrow"
          : "none";
    this.step({
      type: "message",
      from: this.actor(from),
      to: this.actor(to),
      text: label(number + (text ?? "")),
      dotted: arrow.includes("--"),
      tail: arrow.startsWith("<<") ? "arrow" : "none",
      head,
    });
  }

  private note([, place = "", first = "", second, text = ""]: RegExpExecArray): void {
    const from = this.actor(first);
    const side = /^left/i.test(place) ? "left" : /^right/i.test(place) ? "right" : "over";
    this.step({
      type: "note",
      side,
      over: [from, second === undefined ? from : this.actor(second)],
      text: label(text),
    });
  }

  private beginFrame(kind: string, text: string): void {
    // Boxes and colored areas are decoration only.
    const drawn = kind !== "rect" && kind !== "box";
    this.open.push(drawn);
    if (drawn) this.step({ type: "begin", kind, text: label(text) });
  }

  private endFrame(): void {
    const drawn = this.open.pop();
    if (drawn === undefined) throw new NotDrawable("An end without a beginning.");
    if (drawn) this.step({ type: "end" });
  }

  private step(step: Step): void {
    if (this.sequence.steps.length >= LIMITS.steps) throw new NotDrawable("There are too many steps.");
    this.sequence.steps.push(step);
  }

  private actor(name: string, as?: string): string {
    const id = name.trim();
    const existing = this.sequence.actors.get(id);
    if (!existing) {
      if (this.sequence.actors.size >= LIMITS.actors) throw new NotDrawable("There are too many participants.");
      this.sequence.actors.set(id, { id, label: label(as ?? id) });
    } else if (as !== undefined) existing.label = label(as);
    return id;
  }
}
