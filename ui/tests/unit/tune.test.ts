import { describe, expect, test } from "vitest";
import { tableRows } from "../../src/lib/charts/rows";
import type { Inspection, RunPoint, TrainSettings } from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import { inspect, newDataset, trainDefaults } from "../../src/lib/host/fake/datasets";
import { App } from "../../src/lib/stores/app.svelte";
import { shuffled } from "../../src/lib/stores/compare.svelte";
import { Live } from "../../src/lib/stores/live.svelte";
import { Runs } from "../../src/lib/stores/runs.svelte";
import { groups, parse, shown, type Field } from "../../src/lib/tune/fields";
import { forecast, forecastText } from "../../src/lib/tune/forecast";
import { started, tell } from "./started";
import { until } from "./until";

const data = (change: Partial<Inspection> = {}): Inspection => ({
  ...inspect(newDataset(1, "/x/replies.jsonl"), null, false, null),
  ...change,
});
const settings = (change: Partial<TrainSettings> = {}): TrainSettings => ({ ...trainDefaults, ...change });

test.each([
  [data(), settings(), { examples: 371, validation: 41, epochs: null, steps: null }],
  [data(), settings({ maxSteps: 10 }), { examples: 371, validation: 41, epochs: null, steps: 10 }],
  [
    data(),
    settings({ batch: 2, accumulation: 1, epochs: 1 }),
    { examples: 371, validation: 41, epochs: 1, steps: 186 },
  ],
  [data(), settings({ batch: 16, epochs: 3, maxSteps: 10 }), { examples: 371, validation: 41, epochs: 3, steps: 10 }],
  [data({ examples: 1 }), settings({ batch: 16, epochs: 3 }), { examples: 1, validation: 0, epochs: 3, steps: 1 }],
  [data({ examples: 2 }), settings({ evalSplit: 0.9 }), { examples: 1, validation: 1, epochs: null, steps: null }],
  [data(), settings({ evalSplit: 0 }), { examples: 412, validation: 0, epochs: null, steps: null }],
])("a forecast counts training and validation examples and steps", (inspection, chosen, expected) => {
  expect(forecast(inspection, chosen, "m", [])).toEqual({ ...expected, seconds: null });
});

test("a forecast estimates the time only from a run of the same model", async () => {
  const runs = await new FakeHost(null).runs();
  const actual = forecast(data(), settings({ epochs: 3 }), "smollm2-135m-instruct", runs);
  expect(actual.seconds).toBeCloseTo(((58_210 / 412) * 371 * 3) / 538, 6);
  expect(forecastText("Smol", actual)).toBe(
    "Trains Smol on 371 examples for 3 epochs and validates on 41 others. About 4 min 52 s, going by the last run.",
  );
  expect(forecastText("Smol", forecast(data(), settings(), "another", runs))).toContain(
    "measured before the first step",
  );
  expect(forecastText("Smol", forecast(data(), settings({ epochs: 1 }), "another", runs))).toContain(
    "371 examples for 1 epoch and",
  );
  expect(forecastText("Smol", forecast(data(), settings({ batch: 16, epochs: 3 }), "another", runs))).toContain(
    "for about 70 steps and",
  );
  expect(forecastText("Smol", forecast(data(), settings(), "another", runs))).toContain(
    "371 examples for several epochs and",
  );
});

describe("a setting", () => {
  const field = (key: keyof TrainSettings) =>
    groups.flatMap((g) => g.fields).find((f) => f.key === key) as Extract<Field, { kind: "number" }>;

  test.each([
    ["rank", "32", { value: 32 }],
    ["rank", "3.5", { problem: "Enter a whole number." }],
    ["rank", "0", { problem: "Must be between 1 and 1024." }],
    ["rank", "", { problem: "Enter a number." }],
    ["rank", "many", { problem: "Not a number." }],
    ["batch", " ", { value: null }],
    ["learningRate", "1e-4", { value: 1e-4 }],
    ["warmup", "5", { value: 0.05 }],
    ["warmup", "2,5", { value: 0.025 }],
    ["evalSplit", "95", { problem: "Must be between 0 and 90." }],
  ] as const)("%s typed as %j", (key, text, expected) => {
    expect(parse(field(key), text)).toEqual(expected);
  });

  test("is shown as it is typed, for every field", () => {
    expect([shown(field("learningRate"), 2e-4), shown(field("warmup"), 0.07), shown(field("batch"), null)]).toEqual([
      "2e-4",
      "7",
      "",
    ]);
    for (const f of groups.flatMap((g) => g.fields))
      if (f.kind === "number")
        expect(parse(f, shown(f, trainDefaults[f.key]))).toEqual({ value: trainDefaults[f.key] });
  });
});

test("the table of a long curve has every evaluation and few steps in between", () => {
  const train = Array.from({ length: 5000 }, (_, i) => ({ step: i + 1, value: 1 }));
  const validation = [0, 7, 4999].map((step) => ({ step, value: 2 }));
  const rows = tableRows(train, validation, [{ step: 7, rate: 1e-4 }]);
  expect(rows.length).toBeLessThan(60);
  expect(rows.filter((row) => row.validation !== null).map((row) => row.step)).toEqual([0, 7, 4999]);
  expect(rows.at(-1)?.step).toBe(5000);
  expect(rows.find((row) => row.step === 7)).toEqual({ step: 7, train: 1, validation: 2, rate: 1e-4 });
});

describe("a run's curve", () => {
  const point = (step: number, loss = 1): RunPoint => ({
    step,
    epoch: 0,
    loss,
    learningRate: 0,
    gradientNorm: 0,
    tokensPerSecond: 0,
    memory: 0,
    secondsLeft: 0,
  });

  test("merges fetched points and events, each step once, shown once a frame", async () => {
    const frames: (() => void)[] = [];
    const host = new FakeHost("fresh");
    let answer: (points: RunPoint[]) => void = () => {};
    host.runPoints = () => new Promise((resolve) => (answer = (points) => resolve({ points, evaluations: [] })));
    const runs = new Runs(host, (frame) => frames.push(frame));
    const fetched = runs.fetch(1);
    for (const step of [3, 4]) runs.handle({ revision: 1, type: "runPoint", run: 1, point: point(step) });
    expect(frames.length).toBe(1);
    frames.pop()?.();
    answer([point(1), point(2), point(3)]);
    await fetched;
    expect(runs.curve(1)?.points.map((p) => p.step)).toEqual([1, 2, 3, 4]);
  });

  test("that resumes from a checkpoint replaces the old steps", async () => {
    const host = new FakeHost("fresh");
    host.runPoints = async () => ({ points: [1, 2, 3, 4].map((step) => point(step, 1)), evaluations: [] });
    const runs = new Runs(host, (frame) => frame());
    await runs.fetch(1);
    runs.handle({ revision: 1, type: "runPoint", run: 1, point: point(3, 2) });
    expect(runs.curve(1)?.points.map((p) => [p.step, p.loss])).toEqual([
      [1, 1],
      [2, 1],
      [3, 2],
    ]);
  });
});

test.each([2, 3, 4])("every order of %i answers is about equally frequent, and the same each time", (count) => {
  const rounds = 4800;
  const seen = new Map<string, number>();
  for (let round = 0; round < rounds; round++) {
    // Ids as a store gives them: the answers of a comparison follow each other, the next one's a
    // few later.
    const answers = Array.from({ length: count }, (_, at) => ({ message: { id: round * (count + 1) + at } }));
    const order = shuffled(answers);
    expect(shuffled(answers.toReversed().sort((a, b) => a.message.id - b.message.id))).toEqual(order);
    const key = order.map((value) => answers.indexOf(value)).join();
    seen.set(key, (seen.get(key) ?? 0) + 1);
  }
  const orders = [1, 1, 2, 6, 24][count] ?? 1;
  expect(seen.size).toBe(orders);
  for (const times of seen.values()) expect(Math.abs((times * orders) / rounds - 1)).toBeLessThan(0.4);
});

test("a conversation is busy until both of two answers have ended", () => {
  const live = new Live(
    () => {},
    (frame) => frame(),
  );
  const answer = (id: number, type: "waiting" | "complete") => ({
    id,
    conversation: 7,
    parent: 1,
    role: "assistant" as const,
    parts: [],
    state: { type },
    createdAt: 0,
    model: null,
    stats: null,
    dropped: null,
    adapters: [],
    comparison: null,
    better: false,
    rating: null,
    settings: null,
    edited: false,
    overrides: null,
  });
  live.merge(answer(1, "waiting"));
  live.merge(answer(2, "waiting"));
  live.grow(1, [], { conversation: 7, kind: "text", text: "a", tokens: 1, tokensPerSecond: 1, contextUsed: 9 });
  live.merge(answer(1, "complete"));
  expect(live.busy.get(7)).toBe(2);
  live.merge(answer(2, "complete"));
  expect(live.busy.size).toBe(0);
});

test("only the last inspection counts", async () => {
  const host = new FakeHost(null);
  const app = new App(host, { schedule: (callback) => callback() });
  await app.start();
  const answers: ((inspection: Inspection) => void)[] = [];
  host.inspectDataset = () => new Promise((resolve) => answers.push(resolve));
  const [dataset] = await host.datasets();
  if (!dataset) throw new Error("no dataset");
  const first = app.tune.prepare(dataset);
  await expect.poll(() => answers.length).toBe(1);
  const second = app.preparation.choose({ skipBroken: true });
  answers[1]?.(data({ examples: 2 }));
  answers[0]?.(data({ examples: 1 }));
  await Promise.all([first, second]);
  expect(app.preparation.inspection?.examples).toBe(2);
  expect(app.preparation.inspecting).toBe(false);
});

test("a run begins with the system prompt of the model's chats", async () => {
  const host = new FakeHost(null);
  const app = new App(host, { schedule: (callback) => callback() });
  await app.start();
  const requests: unknown[] = [];
  const inspect = host.inspectDataset.bind(host);
  host.inspectDataset = (...args) => (requests.push(args[5]), inspect(...args));
  const [dataset] = await host.datasets();
  if (!dataset) throw new Error("no dataset");
  await app.tune.prepare(dataset);
  const modelPrompt = app.models.all.find(({ id }) => id === app.preparation.model)?.systemPrompt;
  expect([modelPrompt, app.preparation.newRun()?.settings.systemPrompt]).toEqual([modelPrompt, modelPrompt]);
  expect(modelPrompt).toBeTruthy();
  app.preparation.set("systemPrompt", null);
  app.preparation.set("rank", 8);
  app.preparation.reset();
  expect(app.preparation.newRun()?.settings.systemPrompt).toBe(null);
  app.preparation.set("systemPrompt", modelPrompt ?? null);
  expect(app.preparation.changes).toEqual({});
  expect(requests).toEqual([modelPrompt, null, modelPrompt]);
});

test("the next run has no maximum of steps, and the other changed settings", async () => {
  const { app, host } = await started();
  const [dataset] = await host.datasets();
  if (!dataset) throw new Error("no dataset");
  await app.tune.prepare(dataset);
  host.pace = Number.POSITIVE_INFINITY;
  app.preparation.set("maxSteps", 5);
  app.preparation.set("rank", 8);
  await app.tune.train();
  expect(app.tune.page.at).toBe("run");
  expect(app.preparation.changes).toEqual({ rank: 8 });
});

test("the verification of an export has no fraction", async () => {
  const { app, host } = await started();
  const [adapter] = app.adapters.all;
  if (!adapter) throw new Error("no adapter");
  host.pace = Number.POSITIVE_INFINITY;
  void app.exports.start(adapter, { type: "peft" }, true);
  await until(() => app.exports.running !== null);
  const tellOf = (fraction: number, type: "writing" | "verifying") =>
    tell(app, { type: "exportProgress", adapter: adapter.id, fraction, stage: { type } });
  tellOf(0.05, "writing");
  expect(app.exports.running?.fraction).toBe(0.05);
  tellOf(0.85, "verifying");
  expect(app.exports.running?.fraction).toBe(null);
});
