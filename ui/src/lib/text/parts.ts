// The parts of a message: their text, and how they grow.

import { m } from "$messages";
import type { Part, TextKind } from "../host";
import { fileSize } from "./format";

/** What is said: all text parts, a blank line between them. */
export function textOf(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n\n");
}

/** The parts of a plain message. */
export function plain(text: string): Part[] {
  return text === "" ? [] : [{ type: "text", text }];
}

/** The parts after generated text: added to the last part if it is of this kind, else as a new one. */
export function grown(parts: readonly Part[], kind: TextKind, text: string): Part[] {
  const last = parts.at(-1);
  return last?.type === kind ? [...parts.slice(0, -1), { type: kind, text: last.text + text }] : [...parts, { type: kind, text }];
}

/** Characters of generated text, to compare which of two states of an answer is newer. */
export function lengthOf(parts: readonly Part[]): number {
  return parts.reduce((sum, part) => sum + (part.type === "text" || part.type === "thinking" ? part.text.length : 0), 0);
}

/** A part that is shown as a card. */
export type CardPart = Exclude<Part, { type: "text" | "thinking" }>;

export interface CardText {
  title: string;
  detail: string;
  /** Shown unfolded. Empty if there is nothing to unfold. */
  body: string;
}

export function cardText(part: CardPart): CardText {
  switch (part.type) {
    case "toolCall":
      return { title: part.name, detail: m.text_part_tool_call(), body: JSON.stringify(part.arguments, null, 2) };
    case "toolResult":
      return { title: part.name, detail: m.text_part_tool_result(), body: part.text };
    case "image":
      return { title: part.name, detail: m.text_part_image({ size: fileSize(part.bytes) }), body: "" };
    case "file":
      return { title: part.name, detail: m.text_part_file({ size: fileSize(new Blob([part.text]).size) }), body: part.text };
  }
}
