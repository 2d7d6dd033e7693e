// Forecasts a run from its settings, before its dry run.

import { m } from "$messages";
import type { Inspection, Run, TrainSettings } from "../host";
import { count, duration, sentences } from "../text/format";

export interface Forecast {
  examples: number;
  validation: number;
  epochs: number | null;
  /** `null` if the memory plan chooses the batch size. */
  steps: number | null;
  /** `null` before the first run of this model on this machine. */
  seconds: number | null;
}

export function forecast(
  inspection: Inspection,
  settings: TrainSettings,
  model: string,
  runs: readonly Run[],
): Forecast {
  const validation =
    settings.evalSplit > 0 && inspection.examples > 1
      ? Math.min(inspection.examples - 1, Math.max(1, Math.round(inspection.examples * settings.evalSplit)))
      : 0;
  const examples = inspection.examples - validation;
  const { batch, accumulation, epochs, maxSteps } = settings;
  const planned =
    batch === null || epochs === null
      ? null
      : Math.max(1, Math.ceil((examples * epochs) / (batch * (accumulation ?? 1))));
  const steps = planned === null ? maxSteps : Math.min(planned, maxSteps ?? Infinity);
  const last = runs.find(
    (run) => run.model === model && run.outcome !== null && run.outcome.tokensPerSecond > 0,
  )?.outcome;
  const isKnown = planned !== null || maxSteps === null;
  const tokens =
    (inspection.tokens / Math.max(1, inspection.examples)) * examples * (planned && steps ? steps / planned : 1);
  return {
    examples,
    validation,
    epochs,
    steps,
    seconds: last && isKnown && epochs !== null ? (tokens * epochs) / last.tokensPerSecond : null,
  };
}

/** The forecast as text. */
export function forecastText(modelName: string, { examples, validation, epochs, steps, seconds }: Forecast): string {
  const length =
    steps !== null
      ? m.tune_forecast_steps({ count: steps })
      : epochs === null
        ? m.tune_forecast_epochs_unknown()
        : m.tune_forecast_epochs({ count: epochs });
  const inputs = { model: modelName, count: examples, length };
  return sentences([
    validation > 0 ? m.tune_forecast_validated({ ...inputs, others: count(validation) }) : m.tune_forecast(inputs),
    seconds === null ? m.tune_forecast_unmeasured() : m.tune_forecast_time({ time: duration(seconds) }),
  ]);
}
