// Logit biases as they are typed: a token by its text or its id, and a number or “ban”.

import type { LogitBias } from "../../host";
import { escaped, unescaped } from "./escapes";
import { parse, shown, textProblem } from "./knobs";

export interface TypedBias {
  by: "text" | "id";
  token: string;
  bias: string;
}

const MOST_ID = 2 ** 32 - 1;

export function typedBias(given: LogitBias): TypedBias {
  const bias = given.bias === null ? "ban" : shown(given.bias);
  return "id" in given ? { by: "id", token: String(given.id), bias } : { by: "text", token: escaped(given.text), bias };
}

/** Parses what was typed; `problem` says why it is invalid. */
export function parseBias({ by, token, bias }: TypedBias, bytes: number): { value: LogitBias } | { problem: string } {
  const amount = /^(ban|-inf)$/i.test(bias.trim()) ? { value: null } : parse({ least: -1000, most: 1000 }, bias);
  if ("problem" in amount) return { problem: `Bias: ${amount.problem}` };
  if (amount.value === null && bias.trim() === "") return { problem: "Bias: enter a number, or “ban”." };
  if (by === "text") {
    const text = unescaped(token);
    if (text === "") return { problem: "Token: enter its text." };
    const problem = textProblem({ key: "logitBias", bytes }, text);
    return problem === null ? { value: { text, bias: amount.value } } : { problem: `Token: ${problem}` };
  }
  const id = parse({ least: 0, most: MOST_ID, whole: true }, token);
  if ("problem" in id) return { problem: `Token: ${id.problem}` };
  return id.value === null ? { problem: "Token: enter its id." } : { value: { id: id.value, bias: amount.value } };
}
