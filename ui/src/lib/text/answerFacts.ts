// What made an answer, as names with values.

import type { AnswerSettings, LogitBias, Message, SamplingParams } from "../host";
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

function settingFacts({ sampling, maxTokens, stop, thinking, effort, jsonSchema }: AnswerSettings): Fact[] {
  const facts: Fact[] = [["Temperature", sampling.temperature === 0 ? "0 (greedy)" : temperatureOf(sampling)]];
  if (sampling.temperature > 0) facts.push(...drawFacts(sampling));
  facts.push(...penaltyFacts(sampling));
  if (sampling.logitBias.length > 0) facts.push(["Logit bias", sampling.logitBias.map(biasOf).join(", ")]);
  if (sampling.bannedStrings.length > 0) facts.push(["Banned strings", quoted(sampling.bannedStrings)]);
  if (maxTokens !== null) facts.push(["Length limit", `${count(maxTokens)} tokens`]);
  if (stop.length > 0) facts.push(["Stop strings", quoted(stop)]);
  if (thinking !== null) facts.push(["Thinking", thinking ? "on" : "off"]);
  if (effort !== null) facts.push(["Effort", effort]);
  if (jsonSchema !== null) facts.push(["JSON schema", jsonSchema]);
  return facts;
}

/** The parameters of the draw that had an effect. */
function drawFacts(s: SamplingParams): Fact[] {
  const facts: Fact[] = [];
  if (s.mirostat) facts.push(["Mirostat 2", `τ ${rounded(s.mirostatTau)}, η ${rounded(s.mirostatEta)}`]);
  else {
    facts.push(["Top-k", rounded(s.topK)], ["Top-p", rounded(s.topP)], ["Min-p", rounded(s.minP)]);
    if (s.typicalP !== 1) facts.push(["Typical-p", rounded(s.typicalP)]);
    if (s.topNSigma > 0) facts.push(["Top-nσ", rounded(s.topNSigma)]);
    if (s.xtcProbability > 0 && s.xtcThreshold <= 0.5) facts.push(["XTC", `probability ${rounded(s.xtcProbability)}, threshold ${rounded(s.xtcThreshold)}`]);
  }
  if (s.seed !== null) facts.push(["Seed", String(s.seed)]);
  return facts;
}

function penaltyFacts(s: SamplingParams): Fact[] {
  const facts: Fact[] = [];
  if (s.repeatLastN > 0) {
    if (s.repetitionPenalty !== 1) facts.push(["Repetition penalty", rounded(s.repetitionPenalty)]);
    if (s.presencePenalty !== 0) facts.push(["Presence penalty", rounded(s.presencePenalty)]);
    if (s.frequencyPenalty !== 0) facts.push(["Frequency penalty", rounded(s.frequencyPenalty)]);
    if (facts.length > 0) facts.push(["Penalty window", `${count(s.repeatLastN)} tokens`]);
  }
  if (s.dryMultiplier > 0 && s.dryLastN > 0) {
    facts.push(["DRY", `multiplier ${rounded(s.dryMultiplier)}, base ${rounded(s.dryBase)}, from ${count(s.dryAllowedLength)} tokens, window ${count(s.dryLastN)}`]);
    facts.push(["DRY sequence breakers", s.dryBreakers.length === 0 ? "none" : quoted(s.dryBreakers)]);
  }
  return facts;
}

function temperatureOf({ temperature, dynatempRange, dynatempExponent, mirostat }: SamplingParams): string {
  const dynamic = dynatempRange > 0 && !mirostat;
  return dynamic ? `${rounded(temperature)} ± ${rounded(dynatempRange)}, exponent ${rounded(dynatempExponent)}` : rounded(temperature);
}

function biasOf(given: LogitBias): string {
  const bias = given.bias === null ? "ban" : `${given.bias < 0 ? "" : "+"}${rounded(given.bias)}`;
  return `${"id" in given ? `#${given.id}` : JSON.stringify(given.text)} ${bias}`;
}

const rounded = (value: number) => String(Number(value.toPrecision(4)));

const quoted = (texts: readonly string[]) => texts.map((text) => JSON.stringify(text)).join(", ");
