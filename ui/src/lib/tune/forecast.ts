// What a run will do, before anything was measured.

import type { Inspection, Run, TrainSettings } from "../host";
import { count, duration, plural } from "../text/format";

export interface Forecast {
  examples: number;
  held: number;
  epochs: number | null;
  /** None where the plan is to choose how many examples a step sees. */
  steps: number | null;
  /** None where no run has told yet how quick this model learns here. */
  seconds: number | null;
}

export function forecast(inspection: Inspection, settings: TrainSettings, model: string, runs: readonly Run[]): Forecast {
  const held = settings.evalSplit > 0 && inspection.examples > 1 ? Math.min(inspection.examples - 1, Math.max(1, Math.round(inspection.examples * settings.evalSplit))) : 0;
  const examples = inspection.examples - held;
  const { batch, accumulation, epochs, maxSteps } = settings;
  const planned = batch === null || epochs === null ? null : Math.max(1, Math.ceil((examples * epochs) / (batch * (accumulation ?? 1))));
  const steps = planned === null ? maxSteps : Math.min(planned, maxSteps ?? Infinity);
  const last = runs.find((run) => run.model === model && run.outcome !== null && run.outcome.tokensPerSecond > 0)?.outcome;
  const known = planned !== null || maxSteps === null;
  const tokens = (inspection.tokens / Math.max(1, inspection.examples)) * examples * (planned && steps ? steps / planned : 1);
  return { examples, held, epochs, steps, seconds: last && known && epochs !== null ? (tokens * epochs) / last.tokensPerSecond : null };
}

/** The forecast in a sentence or two. */
export function foretell(modelName: string, { examples, held, epochs, steps, seconds }: Forecast): string {
  const howLong = steps !== null ? `in about ${plural(steps, "step")}` : epochs === null ? "several times over" : epochs === 1 ? "once" : `${epochs.toLocaleString("en")} times over`;
  const parts = [`${modelName} learns from ${plural(examples, "example")} ${howLong}`];
  parts.push(held > 0 ? `, and is measured with ${count(held)} that it never sees. ` : ". ");
  parts.push(seconds === null ? "How long that takes is measured before the first step." : `That takes about ${duration(seconds)}, going by the last run.`);
  return parts.join("");
}
