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

export function typedBias(given: LogitBias): TypedBias {
  const bias = given.bias === null ? "ban" : shown(given.bias);
  return "id" in given ? { by: "id", token: String(given.id), bias } : { by: "text", token: escaped(given.text), bias };
}

/** Parses what was typed; `problem` says why it is invalid. */
export function parseBias({ by, token, bias }: TypedBias, bytes: number): { value: LogitBias } | { problem: string } {
  const amount = /^(ban|-inf)$/i.test(bias.trim()) ? { value: null } : parse({ least: -1000, most: 1000 }, bias);
  if ("problem" in amount) return { problem: m.chatset_bias_wrong({ problem: amount.problem }) };
  if (amount.value === null && bias.trim() === "") return { problem: m.chatset_bias_missing() };
  if (by === "text") {
    const text = unescaped(token);
    if (text === "") return { problem: m.chatset_token_no_text() };
    const problem = textProblem({ key: "logitBias", bytes }, text);
    return problem === null ? { value: { text, bias: amount.value } } : { problem: m.chatset_token_wrong({ problem }) };
  }
  const id = parse({ least: 0, most: MAX_ID, whole: true }, token);
  if ("problem" in id) return { problem: m.chatset_token_wrong({ problem: id.problem }) };
  return id.value === null ? { problem: m.chatset_token_no_id() } : { value: { id: id.value, bias: amount.value } };
}
