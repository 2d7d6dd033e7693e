// The parts of a message: their text, and how they grow.

import { m } from "$messages";
import type { Message, Part, TextKind } from "../host";
import { beginning } from "./beginning";
import { fileSize } from "./format";

/** All text parts, joined by blank lines. */
export function textOf(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n\n");
}

/**
 * The shown text: at most `most` characters of each text part. All text parts of a user message
 * count as one.
 */
export function shownText({ role, parts }: Pick<Message, "role" | "parts">, most: number): string {
  if (role === "user") return beginning(textOf(parts), most);
  return textOf(parts.map((part) => (part.type === "text" ? { ...part, text: beginning(part.text, most) } : part)));
}

/** The parts of a plain message. */
export function plain(text: string): Part[] {
  return text === "" ? [] : [{ type: "text", text }];
}

/** The parts after generated text: added to the last part if it is of this kind, else as a new one. */
export function grown(parts: readonly Part[], kind: TextKind, text: string): Part[] {
  const last = parts.at(-1);
  return last?.type === kind
    ? [...parts.slice(0, -1), { type: kind, text: last.text + text }]
    : [...parts, { type: kind, text }];
}

/** The parts of an answer of which the last ones are known too, perhaps with more text at the end: `tail` goes on where `parts` end. */
export function joined(parts: readonly Part[], tail: readonly Part[]): Part[] {
  const whole = pieces(parts);
  const more = pieces(tail);
  const [text, added] = [whole, more].map((all) => all.map((piece) => piece.text).join("")) as [string, string];
  let known = Math.min(text.length, added.length);
  while (known > 0 && !text.endsWith(added.slice(0, known))) known--;
  let result = [...parts];
  for (const piece of more) {
    const skipped = Math.min(known, piece.text.length);
    known -= skipped;
    if (skipped < piece.text.length) result = grown(result, piece.type, piece.text.slice(skipped));
  }
  return result;
}

/** The generated parts. */
function pieces(parts: readonly Part[]): { type: TextKind; text: string }[] {
  return parts.flatMap((part) =>
    part.type === "text" || part.type === "thinking" ? { type: part.type, text: part.text } : [],
  );
}

/** The parts whose text at the end is a thought: the model has ended a thought that it never began. */
export function folded(parts: readonly Part[]): Part[] {
  const text = parts.at(-1);
  if (text?.type !== "text") return [...parts];
  const before = parts.slice(0, -1);
  const thought = text.text.trim();
  if (thought === "") return before;
  return grown(before, "thinking", before.at(-1)?.type === "thinking" ? `\n\n${thought}` : thought);
}

/** Characters of generated text, to compare which of two states of an answer is newer. White space is not counted: what becomes a thought loses some. */
export function lengthOf(parts: readonly Part[]): number {
  return parts.reduce(
    (sum, part) => sum + (part.type === "text" || part.type === "thinking" ? part.text.replace(/\s+/g, "").length : 0),
    0,
  );
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
      return {
        title: part.name,
        detail: m.text_part_file({ size: fileSize(new Blob([part.text]).size) }),
        body: part.text,
      };
  }
}
