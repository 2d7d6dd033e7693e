// Logit biases as they are typed: a token by its text or its id, and a number or “ban”.

import { m } from "$messages";
import type { LogitBias } from "../../host";
import { escaped, unescaped } from "./escapes";
import { parse, shown, textProblem } from "./knobs";

export interface TypedBias {
  by: "text" | "id";
  token: string;
  bias: string;
}

const MAX_ID = 2 ** 32 - 1;

export function typedBias(stored: LogitBias): TypedBias {
  const bias = stored.bias === null ? "ban" : shown(stored.bias);
  return "id" in stored
    ? { by: "id", token: String(stored.id), bias }
    : { by: "text", token: escaped(stored.text), bias };
}

/** Parses the typed token and bias; `problem` is the error of an invalid input. */
export function parseBias(
  { by, token, bias }: TypedBias,
  maxBytes: number,
): { value: LogitBias } | { problem: string } {
  const amount = /^(ban|-inf)$/i.test(bias.trim()) ? { value: null } : parse({ min: -1000, max: 1000 }, bias);
  if ("problem" in amount) return { problem: m.chatset_bias_wrong({ problem: amount.problem }) };
  if (amount.value === null && bias.trim() === "") return { problem: m.chatset_bias_missing() };
  if (by === "text") {
    const text = unescaped(token);
    if (text === "") return { problem: m.chatset_token_no_text() };
    const problem = textProblem({ key: "logitBias", maxBytes }, text);
    return problem === null ? { value: { text, bias: amount.value } } : { problem: m.chatset_token_wrong({ problem }) };
  }
  const id = parse({ min: 0, max: MAX_ID, isInteger: true }, token);
  if ("problem" in id) return { problem: m.chatset_token_wrong({ problem: id.problem }) };
  return id.value === null ? { problem: m.chatset_token_no_id() } : { value: { id: id.value, bias: amount.value } };
}
