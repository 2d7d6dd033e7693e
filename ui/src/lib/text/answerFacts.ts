// What made an answer, as names with values.

import type { AnswerSettings, Message } from "../host";
import { count, moment, seconds, speed } from "./format";

type Fact = [name: string, value: string];

export function answerFacts(message: Message, now = Date.now()): Fact[] {
  const { model, stats, settings, adapters, edited } = message;
  const facts: Fact[] = [["Model", model ?? "Unknown"]];
  if (adapters.length > 0) facts.push(["Adapters", adapters.map(({ name, scale }) => (scale === 1 ? name : `${name} × ${scale}`)).join(", ")]);
  facts.push(["Time", moment(message.createdAt, now)]);
  if (edited) facts.push(["Written by", "you, in part or in whole"]);
  if (stats) {
    facts.push(["Tokens", count(stats.tokens)], ["Speed", speed(stats.tokensPerSecond)], ["Prompt", `${count(stats.promptTokens)} tokens, ${count(stats.cachedTokens)} cached`], ["First token", seconds(stats.firstTokenSeconds)]);
    if (stats.thinkingSeconds !== null) facts.push(["Thought for", seconds(stats.thinkingSeconds)]);
    facts.push(["Context", `${count(stats.contextUsed)} of ${count(stats.context)}`]);
  }
  return settings ? [...facts, ...settingFacts(settings)] : facts;
}

function settingFacts({ sampling, maxTokens, stop, thinking, effort }: AnswerSettings): Fact[] {
  const rounded = (value: number) => String(Number(value.toPrecision(4)));
  const facts: Fact[] = [["Temperature", sampling.temperature === 0 ? "0 (greedy)" : rounded(sampling.temperature)]];
  if (sampling.temperature > 0) {
    facts.push(["Top-k", rounded(sampling.topK)], ["Top-p", rounded(sampling.topP)], ["Min-p", rounded(sampling.minP)]);
    if (sampling.seed !== null) facts.push(["Seed", String(sampling.seed)]);
  }
  if (sampling.repetitionPenalty !== 1) facts.push(["Repetition penalty", rounded(sampling.repetitionPenalty)]);
  if (sampling.presencePenalty !== 0) facts.push(["Presence penalty", rounded(sampling.presencePenalty)]);
  if (sampling.frequencyPenalty !== 0) facts.push(["Frequency penalty", rounded(sampling.frequencyPenalty)]);
  if (maxTokens !== null) facts.push(["Length limit", `${count(maxTokens)} tokens`]);
  if (stop.length > 0) facts.push(["Stop strings", stop.map((text) => JSON.stringify(text)).join(", ")]);
  if (thinking !== null) facts.push(["Thinking", thinking ? "on" : "off"]);
  if (effort !== null) facts.push(["Effort", effort]);
  return facts;
}
