// The parts of a message: their text, and their growth during generation.

import { m } from "$messages";
import type { Message, Part, TextKind } from "../host";
import { beginning } from "./beginning";
import { fileSize } from "./format";

/** All text parts, joined by blank lines. */
export function textOf(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" ? part.text : [])).join("\n\n");
}

/**
 * The shown text: at most `maxLength` characters of each text part. All text parts of a user
 * message count as one.
 */
export function shownText({ role, parts }: Pick<Message, "role" | "parts">, maxLength: number): string {
  if (role === "user") return beginning(textOf(parts), maxLength);
  return textOf(
    parts.map((part) => (part.type === "text" ? { ...part, text: beginning(part.text, maxLength) } : part)),
  );
}

/** The parts of a plain message. */
export function plain(text: string): Part[] {
  return text === "" ? [] : [{ type: "text", text }];
}

/**
 * The parts after new text was generated: it is appended to a last part of the same kind, or
 * becomes a new part.
 */
export function grown(parts: readonly Part[], kind: TextKind, text: string): Part[] {
  const last = parts.at(-1);
  return last?.type === kind
    ? [...parts.slice(0, -1), { type: kind, text: last.text + text }]
    : [...parts, { type: kind, text }];
}

/**
 * Joins the parts of an answer with its `tail`, which overlaps their end and may have more text.
 */
export function joined(parts: readonly Part[], tail: readonly Part[]): Part[] {
  const ownPieces = pieces(parts);
  const tailPieces = pieces(tail);
  const [text, added] = [ownPieces, tailPieces].map((all) => all.map((piece) => piece.text).join("")) as [
    string,
    string,
  ];
  let overlap = Math.min(text.length, added.length);
  while (overlap > 0 && !text.endsWith(added.slice(0, overlap))) overlap--;
  let result = [...parts];
  for (const piece of tailPieces) {
    const skipped = Math.min(overlap, piece.text.length);
    overlap -= skipped;
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

/**
 * The parts with the trailing text as a thought: the model ended a thought without starting one.
 */
export function folded(parts: readonly Part[]): Part[] {
  const text = parts.at(-1);
  if (text?.type !== "text") return [...parts];
  const before = parts.slice(0, -1);
  const thought = text.text.trim();
  if (thought === "") return before;
  return grown(before, "thinking", before.at(-1)?.type === "thinking" ? `\n\n${thought}` : thought);
}

/**
 * Number of generated characters, to find the newer of two states of an answer. White space is not
 * counted, since text that is reclassified as thinking loses some.
 */
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
  /** Text of the unfolded card; empty if the card does not unfold. */
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
