// Runs of the fake host: their curves, and past runs. Curves, plans and outcomes are generated, not
// recorded: checking a recorded run would require training it again.

import type {
  Adapter,
  AdapterFit,
  Outcome,
  Problem,
  Run,
  RunCurves,
  RunEvaluation,
  RunPlan,
  RunPoint,
  RunState,
  TrainSettings,
} from "../wire";
import { trainDefaults } from "./datasets";
import { smol } from "./models";
import { detailed, problem } from "./problems";

const HOUR = 3_600_000;

/** Reproducible noise. */
function noise(step: number): number {
  const x = Math.sin(step * 12.9898) * 43758.5453;
  return x - Math.floor(x) - 0.5;
}

export function pointAt(step: number, steps: number, secondsAStep: number): RunPoint {
  const warm = Math.min(1, step / 4);
  return {
    step,
    epoch: (3 * step) / steps,
    loss: 1.24 + 1.12 * Math.exp(-step / (steps * 0.2)) + noise(step) * 0.3 * Math.exp(-step / steps),
    learningRate: step < 4 ? 2e-4 * warm : 1e-4 * (1 + Math.cos((Math.PI * step) / steps)),
    gradientNorm: 0.8 + noise(step + 1) * 0.3,
    tokensPerSecond: 540 + noise(step + 2) * 24,
    memory: 612_000_000 + Math.round(noise(step + 3) * 4_000_000),
    secondsLeft: (steps - step) * secondsAStep,
  };
}

/** Validation loss: falls, then rises a little late in the run. */
export function validationLossAt(step: number, steps: number): number {
  return 1.4 + 0.91 * Math.exp(-step / (steps * 0.18)) + Math.max(0, step / steps - 0.75) * 0.16;
}

export function runPlan(steps: number, settings: TrainSettings): RunPlan {
  return {
    examples: 371,
    evalExamples: 41,
    truncated: 9,
    steps,
    batch: settings.batch ?? 4,
    accumulation: settings.accumulation ?? 4,
    sequence: settings.sequence ?? 512,
    parameters: 4_884_480,
    precision: settings.precision === "auto" ? "bf16" : settings.precision,
    checkpointing: settings.checkpointing === "auto" ? "operations" : settings.checkpointing,
    threads: 8,
    peakMemory: 634_000_000,
    stepSeconds: 2.6,
    totalSeconds: steps * 2.6,
    notices: [],
  };
}

/** Curves up to a step, with ten evaluations. */
export function curvesUpTo(step: number, steps: number): RunCurves {
  const points = Array.from({ length: step }, (_, i) => pointAt(i + 1, steps, 2.6));
  const every = Math.max(1, Math.round(steps / 10));
  const evaluations: RunEvaluation[] = [];
  let lowest = Infinity;
  for (let at = 0; at <= step; at += every) {
    const loss = validationLossAt(at, steps);
    evaluations.push({ step: at, loss, best: loss < lowest });
    lowest = Math.min(lowest, loss);
  }
  return { points, evaluations };
}

export function runOutcome(curves: RunCurves, reason: Outcome["reason"], change: Partial<Outcome> = {}): Outcome {
  const best = curves.evaluations.findLast((e) => e.best);
  const steps = curves.points.at(-1)?.step ?? 0;
  return {
    reason,
    steps,
    bestStep: best?.step ?? steps,
    trainLoss: curves.points.at(-1)?.loss ?? 0,
    evalLossBefore: curves.evaluations[0]?.loss ?? null,
    evalLoss: best?.loss ?? null,
    generalBefore: 18.2,
    generalAfter: 18.6,
    tokensPerSecond: 538,
    seconds: steps * 2.6,
    peakMemory: 634_000_000,
    adapter: "/home/me/.local/share/hearth/runs/1/adapter",
    ...change,
  };
}

/** A run whose loss diverged. */
export function diverged(step: number): Problem {
  return detailed(
    "diverged",
    `The loss became 61.800 in step ${step}, so the run was stopped. An adapter saved before that is kept. Try a lower learning rate.`,
  );
}

interface Past {
  id: number;
  name: string;
  dataset: [id: number, name: string];
  hoursAgo: number;
  reached: number;
  steps: number;
  state: RunState;
  adapter: number | null;
  outcome?: Partial<Outcome>;
}

const past: Past[] = [
  {
    id: 21,
    name: "support-tone",
    dataset: [11, "replies.jsonl"],
    hoursAgo: 2,
    reached: 70,
    steps: 70,
    state: { type: "finished" },
    adapter: 31,
  },
  {
    id: 22,
    name: "baker",
    dataset: [12, "recipes.csv"],
    hoursAgo: 26,
    reached: 40,
    steps: 60,
    state: { type: "stopped" },
    adapter: 32,
    outcome: { reason: "stopped", generalAfter: 22.4 },
  },
  {
    id: 23,
    name: "support-tone, faster",
    dataset: [11, "replies.jsonl"],
    hoursAgo: 50,
    reached: 23,
    steps: 70,
    state: {
      type: "failed",
      problem: diverged(24),
    },
    adapter: null,
  },
  {
    id: 24,
    name: "notes, at length",
    dataset: [13, "notes.md"],
    hoursAgo: 80,
    reached: 48,
    steps: 90,
    state: {
      type: "interrupted",
      problem: problem("workerDied", { area: "tune", type: "closed" }),
    },
    adapter: null,
  },
];

export function pastRuns(): { runs: Run[]; curves: Map<number, RunCurves> } {
  const curves = new Map<number, RunCurves>();
  const runs = past.map(({ id, name, dataset, hoursAgo, reached, steps, state, adapter, outcome }): Run => {
    const runCurves = curvesUpTo(reached, steps);
    curves.set(id, runCurves);
    const ended = state.type === "finished" || state.type === "stopped";
    return {
      id,
      name,
      model: smol.id,
      modelName: smol.name,
      dataset: dataset[0],
      datasetName: dataset[1],
      settings: id === 23 ? { ...trainDefaults, learningRate: 2e-2 } : trainDefaults,
      state,
      plan: runPlan(steps, trainDefaults),
      last: runCurves.points.at(-1) ?? null,
      checkpoint: Math.floor(reached / 20) * 20,
      outcome: ended ? runOutcome(runCurves, "completed", outcome) : null,
      adapter,
      createdAt: Date.now() - hoursAgo * HOUR,
      endedAt: ended ? Date.now() - hoursAgo * HOUR + reached * 2600 : null,
      pending: null,
      seen: true,
    };
  });
  return { runs, curves };
}

/** Common fields of the adapters of the fake host: they fit the small model. */
const smolAdapter = {
  baseName: null,
  baseRepository: null,
  architecture: "llama",
  matches: [{ model: smol.id, fit: { type: "exact" } }],
  size: 9_781_248,
  downloadedFrom: null,
  license: null,
  isDeletable: true,
  unmatched: [],
} satisfies Partial<Adapter>;

/** An imported adapter for the small model, or for another base that is not here. */
export function importedAdapter(id: number, name: string, path: string, base: string | null = null): Adapter {
  const mismatch: AdapterFit = { type: "mismatch", reason: { type: "layers", adapter: 28, model: 30 } };
  const matches = [{ model: smol.id, fit: base === null ? ({ type: "sizes" } as const) : mismatch }];
  return {
    ...smolAdapter,
    id,
    name,
    run: null,
    model: null,
    modelName: null,
    baseName: base,
    baseRepository: base,
    matches,
    isDeletable: false,
    path,
    createdAt: Date.now(),
    outcome: null,
    votes: { tuned: 0, base: 0 },
    problem: null,
  };
}

/** An adapter from the hub. */
export function downloadedAdapter(id: number, name: string, source: string, base: string): Adapter {
  const fits = /smollm2-135m/i.test(base);
  const adapter = importedAdapter(
    id,
    name,
    `/home/you/.local/share/hearth/adapters/${source.replace("hf.co/", "")}/9b1deb4d3b7d`,
    base,
  );
  return {
    ...adapter,
    matches: fits ? [{ model: smol.id, fit: { type: "named" } }] : adapter.matches,
    downloadedFrom: source,
    license: "Apache-2.0",
    isDeletable: true,
    size: 19_562_496,
  };
}

export function runAdapter(id: number, run: Run): Adapter {
  return {
    ...smolAdapter,
    id,
    name: run.name,
    run: run.id,
    model: run.model,
    modelName: run.modelName,
    path: `/home/you/.local/share/hearth/runs/${run.id}`,
    createdAt: run.endedAt ?? Date.now(),
    outcome: run.outcome,
    votes: { tuned: 0, base: 0 },
    problem: null,
  };
}

export function pastAdapters(runs: Run[]): Adapter[] {
  const adapters = runs.flatMap((run) => (run.adapter === null ? [] : [runAdapter(run.adapter, run)]));
  const first = adapters[0];
  if (first) first.votes = { tuned: 6, base: 2 };
  const imported: Adapter = {
    ...importedAdapter(33, "terse", "/home/you/adapters/terse-lora-f16.gguf"),
    model: smol.id,
    modelName: smol.name,
    createdAt: Date.now() - 400 * HOUR,
    unmatched: [{ setting: "alpha_pattern", entries: ["^q_proj"], more: 0 }],
  };
  const missing: Adapter = {
    ...imported,
    id: 34,
    unmatched: [],
    name: "old-style",
    path: "/media/usb/old-style",
    problem: problem("adapterInvalid", {
      area: "models",
      type: "adapterMoved",
      name: "old-style",
      path: "/media/usb/old-style",
    }),
  };
  return [...adapters, imported, missing];
}
