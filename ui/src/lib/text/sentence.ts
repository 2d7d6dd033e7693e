// Sentences of values. The app sends codes and data; this module makes the sentence in the language
// of the window, and `crates/protocol/src/sentence.rs` makes the English one. The key of a sentence
// is `PREFIX_AREA_TYPE` in snake case; its inputs are the fields of the value.

import { m } from "$messages";
import { isProblem, type DeviceStatus, type Mismatch, type Notice, type Stage } from "../host";
import { count, fileSize, list, precise, sentences } from "./format";
import { problemText } from "./problem";

/** An enum value: the name of its variant and the fields of the variant. */
export interface Tagged {
  type: string;
}

type Fields = Readonly<Record<string, unknown>>;

const messages = m as unknown as Readonly<Record<string, ((inputs: Fields) => string) | undefined>>;

/** The sentence of a value. */
export function sentence(prefix: string, value: Tagged): string {
  return sentenceOf(prefix, value as unknown as Fields);
}

/** The notices of a plan or of a model, as joined sentences. */
export function noticesText(notices: readonly Notice[]): string {
  return sentences(notices.map((notice) => sentence("notice", notice)));
}

/** A stage in a few words. */
export function stageText(stage: Stage): string {
  return sentence("stage", stage);
}

/** The status of a device: usable, or the reason for which it is not. */
export function deviceStatusText(status: DeviceStatus): string {
  return sentence("device_status", status);
}

/** The difference between the results of a GPU and of the CPU. */
export function mismatchText(mismatch: Mismatch): string {
  return sentence("mismatch", mismatch);
}

function sentenceOf(prefix: string, fields: Fields): string {
  const key = [prefix, fields.area, fields.type]
    .filter((part) => typeof part === "string")
    .map(snake)
    .join("_");
  const message = messages[key];
  if (message === undefined) return unknownText(key, fields);
  return message(Object.fromEntries(Object.entries(fields).map(([name, field]) => [name, input(name, field)])));
}

/** The text of a value without a message. A test of the app finds such values. */
function unknownText(key: string, fields: Fields): string {
  try {
    return `${key} ${JSON.stringify(fields)}`;
  } catch {
    return key;
  }
}

/** Fields with a number that identifies something, whose digits are not grouped. */
const IDS = new Set(["code", "exitCode", "id", "request", "seed"]);

/** A field as the input of a message. */
function input(name: string, field: unknown): unknown {
  if (field === null || field === undefined) return "";
  if (typeof field === "number")
    return isBytes(name) ? fileSize(field) : IDS.has(name) ? String(field) : numberInput(field);
  if (Array.isArray(field)) return list(field.map((item) => String(input(name, item))));
  if (typeof field !== "object") return String(field);
  if (isProblem(field)) return problemText(field);
  return sentenceOf(snake(name), field as Fields);
}

/**
 * A number as the input of a message. A placeholder shows an input as a string, `2,048`; the plural
 * forms and the format `number` of a message convert it to a number. An object can be both.
 */
function numberInput(n: number): { toString(): string; valueOf(): number } {
  return { toString: () => (Number.isInteger(n) ? count(n) : precise(n)), valueOf: () => n };
}

function isBytes(name: string): boolean {
  return name === "bytes" || name.endsWith("Bytes");
}

/** `noSuchDevice` as `no_such_device`. */
function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
