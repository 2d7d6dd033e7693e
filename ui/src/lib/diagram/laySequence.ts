// Layout of sequence diagrams.

import {
  head,
  line,
  LINE,
  sizeOf,
  texts,
  wrap,
  type Drawing,
  type Mark,
  type Measure,
  type Point,
  type Size,
} from "./drawing";
import type { Sequence, Step } from "./model";

const MARGIN = 12;
const WRAP = 200;
const ACTOR_WRAP = 140;
/** Minimum gap between the boxes of two actors. */
const GAP = 36;
/** Width of a self-message. */
const LOOP = 42;
const NOTE = 10;

interface Column extends Size {
  x: number;
  lines: string[];
}

interface Frame {
  top: number;
  title: string;
  depth: number;
}

type Message = Extract<Step, { type: "message" }>;
type Note = Extract<Step, { type: "note" }>;

export function drawSequence(sequence: Sequence, measure: Measure): Drawing {
  return new SequenceLayout(sequence, measure).draw();
}

class SequenceLayout {
  private readonly ids: string[];
  private readonly columns: Column[];
  private readonly back: Mark[] = [];
  private readonly marks: Mark[] = [];
  private readonly frames: Frame[] = [];
  private left = 0;
  private right = 0;
  private y = 0;

  constructor(
    private readonly sequence: Sequence,
    private readonly measure: Measure,
  ) {
    this.ids = [...sequence.actors.keys()];
    this.columns = [...sequence.actors.values()].map(({ label }) => {
      const lines = wrap(label, ACTOR_WRAP, measure);
      const { width, height } = sizeOf(lines, measure);
      return { x: 0, lines, width: Math.max(70, width + 26), height: height + 18 };
    });
    this.spread();
  }

  draw(): Drawing {
    const boxes = Math.max(...this.columns.map(({ height }) => height));
    this.left = Math.min(...this.columns.map(({ x, width }) => x - width / 2));
    this.right = Math.max(...this.columns.map(({ x, width }) => x + width / 2));
    this.y = boxes + 14;
    for (const step of this.sequence.steps) this.step(step);
    const bottom = this.y + 14;
    const lines = this.columns.map(({ x }): Mark => ({
      kind: "path",
      role: "lifeline",
      d: line([
        { x, y: boxes },
        { x, y: bottom },
      ]),
    }));
    const ends = [boxes / 2, bottom + boxes / 2].flatMap((y) =>
      this.columns.flatMap((column) => actorMarks(column, y, boxes)),
    );
    // Frames extend beyond the actors.
    const pad = MARGIN + (this.sequence.steps.some(({ type }) => type === "begin") ? 16 : 0);
    return {
      type: "sequence",
      left: this.left - pad,
      top: -MARGIN,
      width: this.right - this.left + 2 * pad,
      height: bottom + boxes + 2 * MARGIN,
      marks: [...this.back, ...lines, ...this.marks, ...ends],
    };
  }

  /** Places the columns far enough apart for their boxes and for the texts between them. */
  private spread(): void {
    const needs = this.sequence.steps.flatMap((step) => this.need(step) ?? []);
    for (const [i, column] of this.columns.entries()) {
      const before = this.columns[i - 1];
      if (before) column.x = before.x + (before.width + column.width) / 2 + GAP;
      for (const { from, to, width } of needs)
        if (to === i) column.x = Math.max(column.x, (this.columns[from]?.x ?? 0) + width);
    }
  }

  private need(step: Step): { from: number; to: number; width: number } | null {
    if (step.type === "message") {
      const width = sizeOf(wrap(step.text, WRAP, this.measure), this.measure).width;
      const [from = 0, to = 0] = this.between(step.from, step.to);
      return from === to ? { from, to: from + 1, width: LOOP + width + 16 } : { from, to, width: width + 34 };
    }
    if (step.type !== "note") return null;
    const width = this.noteWidth(step);
    const [from = 0, to = 0] = this.between(...step.over);
    if (step.side === "right") return { from, to: from + 1, width: width + 24 };
    if (step.side === "left") return { from: from - 1, to: from, width: width + 24 };
    return from === to ? null : { from, to, width };
  }

  private between(a: string, b: string): number[] {
    return [this.ids.indexOf(a), this.ids.indexOf(b)].sort((x, y) => x - y);
  }

  private step(step: Step): void {
    if (step.type === "message") this.message(step);
    else if (step.type === "note") this.note(step);
    else if (step.type === "begin") {
      this.frames.push({ top: this.y, title: [step.kind, ...step.text].join(" "), depth: this.frames.length });
      this.y += 34;
    } else if (step.type === "else") this.divide(step.text);
    else this.endFrame();
  }

  private message({ from, to, text, dotted, tail, head: tip }: Message): void {
    const lines = wrap(text, WRAP, this.measure);
    const size = sizeOf(lines, this.measure);
    const start = this.column(from).x;
    const end = this.column(to).x;
    if (start === end) return this.loop(start, lines, size, dotted, tip);
    const y = this.y + size.height + 4;
    const points: [Point, Point] = [
      { x: start, y },
      { x: end, y },
    ];
    this.marks.push(...this.backed(lines, (start + end) / 2, this.y + size.height / 2), {
      kind: "path",
      role: "edge",
      d: line(points),
      dashed: dotted,
    });
    if (tip !== "none") this.marks.push(head(tip, points[1], points[0]));
    if (tail !== "none") this.marks.push(head("arrow", points[0], points[1]));
    this.y = y + 16;
  }

  private loop(x: number, lines: string[], size: Size, dotted: boolean, tip: Message["head"]): void {
    const height = Math.max(26, size.height);
    const bottom = this.y + height;
    const points = [
      { x, y: this.y + 4 },
      { x: x + LOOP, y: this.y + 4 },
      { x: x + LOOP, y: bottom },
      { x, y: bottom },
    ];
    const center = x + LOOP + 8 + size.width / 2;
    this.marks.push(
      { kind: "path", role: "edge", d: line(points), dashed: dotted },
      ...this.backed(lines, center, this.y + height / 2 + 2),
    );
    if (tip !== "none") this.marks.push(head(tip, { x, y: bottom }, { x: x + LOOP, y: bottom }));
    this.right = Math.max(this.right, x + LOOP + size.width + 16);
    this.y = bottom + 16;
  }

  private noteWidth(step: Note): number {
    return sizeOf(wrap(step.text, WRAP, this.measure), this.measure).width + 2 * NOTE;
  }

  private note(step: Note): void {
    const lines = wrap(step.text, WRAP, this.measure);
    const height = lines.length * LINE + 2 * NOTE - 6;
    const [a, b] = step.over.map((id) => this.column(id).x).sort((x, y) => x - y) as [number, number];
    const width = step.side === "over" ? Math.max(this.noteWidth(step), b - a + 40) : this.noteWidth(step);
    const center = step.side === "over" ? (a + b) / 2 : step.side === "left" ? a - 10 - width / 2 : b + 10 + width / 2;
    this.marks.push(
      { kind: "box", role: "note", x: center - width / 2, y: this.y, width, height, radius: 3 },
      ...texts(lines, center, this.y + height / 2, "label"),
    );
    this.left = Math.min(this.left, center - width / 2);
    this.right = Math.max(this.right, center + width / 2);
    this.y += height + 14;
  }

  private divide(text: readonly string[]): void {
    const inset = (this.frames.length - 1) * 8;
    this.back.push({
      kind: "path",
      role: "frame",
      d: line([
        { x: this.left - 16 + inset, y: this.y },
        { x: this.right + 16 - inset, y: this.y },
      ]),
      dashed: true,
    });
    if (text.length > 0)
      this.marks.push({
        kind: "text",
        role: "title",
        x: this.left - 6 + inset,
        y: this.y + 14,
        text: `[${text.join(" ")}]`,
        anchor: "start",
      });
    this.y += text.length > 0 ? 32 : 14;
  }

  private endFrame(): void {
    const frame = this.frames.pop();
    if (!frame) return;
    const inset = frame.depth * 8;
    const x = this.left - 16 + inset;
    this.back.push({
      kind: "box",
      role: "frame",
      x,
      y: frame.top,
      width: this.right + 16 - inset - x,
      height: this.y - frame.top,
      radius: 4,
    });
    this.marks.push({ kind: "text", role: "title", x: x + 10, y: frame.top + 14, text: frame.title, anchor: "start" });
    this.right = Math.max(this.right, x + 20 + this.measure(frame.title));
    this.y += 14;
  }

  private backed(lines: readonly string[], x: number, y: number): Mark[] {
    if (lines.length === 0) return [];
    const { width, height } = sizeOf(lines, this.measure);
    return [
      { kind: "box", role: "backdrop", x: x - width / 2 - 3, y: y - height / 2, width: width + 6, height, radius: 2 },
      ...texts(lines, x, y, "label"),
    ];
  }

  private column(id: string): Column {
    return this.columns[this.ids.indexOf(id)] ?? { x: 0, width: 0, height: 0, lines: [] };
  }
}

function actorMarks({ x, width, lines }: Column, y: number, height: number): Mark[] {
  return [
    { kind: "box", role: "node", x: x - width / 2, y: y - height / 2, width, height, radius: 4 },
    ...texts(lines, x, y, "label"),
  ];
}
