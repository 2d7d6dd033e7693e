// Facts on the generation of an answer, as names with values.

import { m } from "$messages";
import type { AnswerSettings, LogitBias, Message, SamplingParams } from "../host";
import { usedAdapterName } from "./adapters";
import { count, list, moment, precise, seconds, speed } from "./format";

type Fact = [name: string, value: string];

export function answerFacts(message: Message, now = Date.now()): Fact[] {
  const { model, stats, settings, adapters, edited, overrides } = message;
  const facts: Fact[] = [[m.text_fact_model(), model ?? m.text_fact_model_unknown()]];
  if (adapters.length > 0)
    facts.push([
      m.text_fact_adapters(),
      list(
        adapters.map(({ name, scale }) =>
          scale === 1 ? usedAdapterName(name) : `${usedAdapterName(name)} × ${precise(scale)}`,
        ),
      ),
    ]);
  facts.push([m.text_fact_time(), moment(message.createdAt, now)]);
  if (overrides?.preset) {
    const { name, values } = overrides.preset;
    facts.push([m.text_fact_preset(), name]);
    if (values.systemPrompt !== null) facts.push([m.text_fact_system_prompt(), values.systemPrompt]);
  }
  if (edited) facts.push([m.text_fact_written_by(), m.text_fact_written_by_you()]);
  if (stats) {
    facts.push([m.text_fact_tokens(), count(stats.tokens)], [m.text_fact_speed(), speed(stats.tokensPerSecond)]);
    facts.push(
      [
        m.text_fact_prompt(),
        m.text_fact_prompt_tokens({ count: stats.promptTokens, cached: count(stats.cachedTokens) }),
      ],
      [m.text_fact_first_token(), seconds(stats.firstTokenSeconds)],
    );
    if (stats.thinkingSeconds !== null) facts.push([m.text_fact_thought_for(), seconds(stats.thinkingSeconds)]);
    facts.push([
      m.text_fact_context(),
      m.text_fact_context_used({ used: count(stats.contextUsed), all: count(stats.context) }),
    ]);
  }
  return settings ? [...facts, ...settingFacts(settings)] : facts;
}

function settingFacts({ sampling, maxTokens, stop, thinking, effort, jsonSchema }: AnswerSettings): Fact[] {
  const facts: Fact[] = [
    [
      m.text_fact_temperature(),
      sampling.temperature === 0 ? m.text_fact_temperature_greedy() : temperatureOf(sampling),
    ],
  ];
  if (sampling.temperature > 0) facts.push(...drawFacts(sampling));
  facts.push(...penaltyFacts(sampling));
  if (sampling.logitBias.length > 0) facts.push([m.text_fact_logit_bias(), list(sampling.logitBias.map(biasOf))]);
  if (sampling.bannedStrings.length > 0) facts.push([m.text_fact_banned_strings(), quoted(sampling.bannedStrings)]);
  if (maxTokens !== null) facts.push([m.text_fact_length_limit(), m.text_tokens({ count: maxTokens })]);
  if (stop.length > 0) facts.push([m.text_fact_stop_strings(), quoted(stop)]);
  if (thinking !== null)
    facts.push([m.text_fact_thinking(), thinking ? m.text_fact_thinking_on() : m.text_fact_thinking_off()]);
  if (effort !== null) facts.push([m.text_fact_effort(), effort]);
  if (jsonSchema !== null) facts.push([m.text_fact_json_schema(), jsonSchema]);
  return facts;
}

/** The sampling parameters that had an effect. */
function drawFacts(s: SamplingParams): Fact[] {
  const facts: Fact[] = [];
  // not text: names that are the same in every language
  if (s.mirostat) facts.push(["Mirostat 2", `τ ${precise(s.mirostatTau)}, η ${precise(s.mirostatEta)}`]);
  else {
    // not text: names
    facts.push(
      ["Top-k", s.topK === 0 ? m.chatset_off() : precise(s.topK)],
      ["Top-p", precise(s.topP)],
      ["Min-p", precise(s.minP)],
    );
    if (s.typicalP !== 1) facts.push(["Typical-p", precise(s.typicalP)]); // not text: a name
    if (s.topNSigma > 0) facts.push(["Top-nσ", precise(s.topNSigma)]); // not text: a name
    if (s.xtcProbability > 0 && s.xtcThreshold <= 0.5)
      facts.push([
        "XTC",
        m.text_fact_xtc({ probability: precise(s.xtcProbability), threshold: precise(s.xtcThreshold) }),
      ]);
  }
  if (s.seed !== null) facts.push([m.text_fact_seed(), String(s.seed)]);
  return facts;
}

function penaltyFacts(s: SamplingParams): Fact[] {
  const facts: Fact[] = [];
  if (s.repeatLastN > 0) {
    if (s.repetitionPenalty !== 1) facts.push([m.text_fact_repetition_penalty(), precise(s.repetitionPenalty)]);
    if (s.presencePenalty !== 0) facts.push([m.text_fact_presence_penalty(), precise(s.presencePenalty)]);
    if (s.frequencyPenalty !== 0) facts.push([m.text_fact_frequency_penalty(), precise(s.frequencyPenalty)]);
    if (facts.length > 0) facts.push([m.text_fact_penalty_window(), m.text_tokens({ count: s.repeatLastN })]);
  }
  if (s.dryMultiplier > 0 && s.dryLastN > 0) {
    facts.push([
      "DRY",
      m.text_fact_dry({
        multiplier: precise(s.dryMultiplier),
        base: precise(s.dryBase),
        count: s.dryAllowedLength,
        window: count(s.dryLastN),
      }),
    ]);
    facts.push([
      m.text_fact_dry_breakers(),
      s.dryBreakers.length === 0 ? m.text_fact_dry_breakers_none() : quoted(s.dryBreakers),
    ]);
  }
  return facts;
}

function temperatureOf({ temperature, dynatempRange, dynatempExponent, mirostat }: SamplingParams): string {
  if (dynatempRange <= 0 || mirostat) return precise(temperature);
  return m.text_fact_temperature_dynamic({
    temperature: precise(temperature),
    range: precise(dynatempRange),
    exponent: precise(dynatempExponent),
  });
}

function biasOf(entry: LogitBias): string {
  const token = "id" in entry ? `#${entry.id}` : JSON.stringify(entry.text);
  return entry.bias === null
    ? m.text_fact_logit_bias_ban({ token })
    : `${token} ${entry.bias < 0 ? "" : "+"}${precise(entry.bias)}`;
}

const quoted = (texts: readonly string[]) => list(texts.map((text) => JSON.stringify(text)));
