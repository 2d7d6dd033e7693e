// What a run will do, before anything was measured.

import type { Inspection, Run, TrainSettings } from "../host";
import { count, duration, plural } from "../text/format";

/** Examples a step sees when nobody says otherwise. */
const EXAMPLES_A_STEP = 16;

export interface Forecast {
  examples: number;
  held: number;
  steps: number;
  /** None where no run has told yet how quick this model learns here. */
  seconds: number | null;
}

export function forecast(inspection: Inspection, settings: TrainSettings, model: string, runs: readonly Run[]): Forecast {
  const held = settings.evalSplit > 0 && inspection.examples > 1 ? Math.min(inspection.examples - 1, Math.max(1, Math.round(inspection.examples * settings.evalSplit))) : 0;
  const examples = inspection.examples - held;
  const aStep = settings.batch === null && settings.accumulation === null ? EXAMPLES_A_STEP : (settings.batch ?? 1) * (settings.accumulation ?? 1);
  const planned = Math.max(1, Math.ceil((examples * settings.epochs) / aStep));
  const steps = Math.min(planned, settings.maxSteps ?? Infinity);
  const last = runs.find((run) => run.model === model && run.outcome !== null && run.outcome.tokensPerSecond > 0)?.outcome;
  const tokens = (inspection.tokens / Math.max(1, inspection.examples)) * examples * settings.epochs * (steps / planned);
  return { examples, held, steps, seconds: last ? tokens / last.tokensPerSecond : null };
}

/** The forecast in a sentence or two. */
export function foretell(modelName: string, { examples, held, steps, seconds }: Forecast): string {
  const parts = [`${modelName} learns from ${plural(examples, "example")} in about ${plural(steps, "step")}`];
  parts.push(held > 0 ? `, and is measured with ${count(held)} that it never sees. ` : ". ");
  parts.push(seconds === null ? "How long that takes is measured before the first step." : `That takes about ${duration(seconds)}, going by the last run.`);
  return parts.join("");
}
