// The scenes of the fake host: initial states for screenshots, tests and measurements.

import {
  defaultSettings,
  type CacheUsage,
  type Conversation,
  type Download,
  type Link,
  type Measurement,
  type Message,
  type Model,
  type ModelState,
  type Settings,
} from "../wire";
import { defaultChatSettings, nothingUnsent } from "../host";
import { plain } from "../../text/parts";
import { hostile, tour } from "./answers";
import { formulas } from "./formulas";
import { machineOf, type Machine } from "./devices";
import { huge, loadedState, lost, others, qwen, small, smol } from "./models";
import { MODEL_GONE, problem } from "./problems";

export interface World extends Machine {
  settings: Settings;
  models: Model[];
  measurements: Measurement[];
  caches: CacheUsage[];
  modelState: ModelState;
  conversations: Map<number, Conversation>;
  deleted: Set<number>;
  downloads: Download[];
  pinned: Set<number>;
  /** Paths of the exports that were imported. */
  imported: Set<string>;
  pace?: number;
}

const HOUR = 3_600_000;

/** A link to a variant of a repository. */
export const linked: Link = {
  type: "model",
  source: "hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0",
  place: { type: "hub", owner: "unsloth", name: "Qwen3-0.6B-GGUF", revision: null, quantization: "Q8_0", file: null },
};

const settings: Settings = { ...defaultSettings, lastModel: smol.id };

const fullCaches: CacheUsage[] = [
  { cache: "prompts", path: "/home/you/.local/share/hearth/prompt-cache", bytes: 1_284_000_000 },
  { cache: "weights", path: "/home/you/.cache/hearth/packed", bytes: 91_600_000 },
];

const samples: [title: string, hoursAgo: number, question: string, answer: string][] = [
  [
    "Borrow checker, gently",
    0.2,
    "Why can't I push to a Vec while iterating over it?",
    "Because the iterator holds a **shared borrow** of the vector, and pushing needs an *exclusive* one. If pushing were allowed, the vector could move its elements and the iterator would point at freed memory.\n\n```rust\nlet more: Vec<_> = v.iter().map(|x| x * 2).collect();\nv.extend(more);\n```\n\nCollect first, then extend: the borrow ends before the change begins.",
  ],
  ["Everything markdown", 1.5, "Show me everything you can format.", tour],
  [
    "Letter to the landlord",
    3,
    "Draft a short, polite letter: the heating has been off since Monday.",
    "Dear Ms Abel,\n\nthe heating in flat 4 has been off since Monday, and the rooms are down to 15 °C. Could you send someone to look at it this week? I am at home every day after four.\n\nThank you, and kind regards",
  ],
  [
    "Rye bread, 80 % hydration",
    27,
    "How much water for 500 g of rye flour at 80 % hydration?",
    "**400 g** of water: 80 % of 500 g.",
  ],
  ["Names for a small grey cat", 75, "Three names for a small grey cat?", "1. Ash\n2. Pebble\n3. Smoke"],
  [
    "SQL: gaps and islands",
    150,
    "What is a gaps-and-islands query?",
    "It groups consecutive rows: subtract a `row_number()` from the value, and every run of neighbors shares the same difference.",
  ],
  ["A page that tries things", 300, "Be hostile.", hostile],
  [
    "Haiku about a kettle",
    1300,
    "A haiku about a kettle.",
    "Small song in the steam,\nthe kettle remembers rain.\nTwo cups on the sill.",
  ],
];

/** Realistic conversations. */
function library(): Map<number, Conversation> {
  const all = new Map<number, Conversation>();
  samples.forEach(([title, hoursAgo, question, answer], i) => {
    const conversation = talk(i + 1, title, Date.now() - hoursAgo * HOUR, [question, answer]);
    all.set(conversation.id, conversation);
  });
  const first = all.get(1);
  if (first) addBranches(first);
  for (const id of [3, 4, 5]) rate(all.get(id));
  return all;
}

function rate(conversation: Conversation | undefined): void {
  const answer = conversation?.messages.at(-1);
  if (answer) answer.rating = { thumb: "up", correction: null };
}

/** Three answers to one question; the second is the current branch. */
function addBranches(c: Conversation): void {
  const [user, answer] = c.messages;
  if (!user || !answer) return;
  const other = (id: number, text: string): Message => ({ ...answer, id, parts: plain(text) });
  c.messages = [
    user,
    other(8001, "It is not allowed: the loop is still reading."),
    answer,
    other(9001, "The vector may move while you look at it."),
  ];
  c.leaf = answer.id;
}

function talk(id: number, title: string, at: number, turns: string[]): Conversation {
  const messages = turns.map((text, i): Message => ({
    id: id * 100_000 + i,
    conversation: id,
    parent: i === 0 ? null : id * 100_000 + i - 1,
    role: i % 2 === 0 ? "user" : "assistant",
    parts: plain(text),
    state: { type: "complete" },
    createdAt: at,
    model: i % 2 === 0 ? null : smol.name,
    stats:
      i % 2 === 0
        ? null
        : {
            promptTokens: 48,
            cachedTokens: 0,
            tokens: 96,
            tokensPerSecond: 231.4,
            promptTokensPerSecond: 1840,
            firstTokenSeconds: 0.041,
            contextUsed: 696,
            context: 2048,
            draft: null,
            thinkingSeconds: null,
          },
    dropped: null,
    adapters: [],
    comparison: null,
    overrides: null,
    better: false,
    rating: null,
    settings:
      i % 2 === 0
        ? null
        : {
            sampling: { ...smol.sampling, seed: 421 },
            maxTokens: null,
            stop: [],
            thinking: null,
            effort: null,
            jsonSchema: null,
          },
    edited: false,
  }));
  return {
    id,
    title,
    createdAt: at,
    updatedAt: at,
    model: smol.id,
    systemPrompt: null,
    adapters: [],
    settings: defaultChatSettings,
    leaf: messages.at(-1)?.id ?? null,
    messages,
    unsent: nothingUnsent,
  };
}

/** One conversation with a part of every kind. */
function everyPart(): Map<number, Conversation> {
  const home = talk(1, "Sales by quarter", Date.now(), [
    "What were the sales, and in which quarter were they best?",
    "",
    "",
    "They were best in the **third quarter**: 412 of 1,190 orders.",
  ]);
  const [question, call, result, answer] = home.messages;
  question?.parts.unshift(
    { type: "file", name: "sales.csv", mediaType: "text/csv", text: "quarter,orders\n1,204\n2,281\n3,412\n4,293\n" },
    { type: "image", name: "chart.png", mediaType: "image/png", path: "/home/you/chart.png", bytes: 48_200 },
  );
  call?.parts.push(
    { type: "thinking", text: "The file has the orders by quarter. I will add them up rather than guess." },
    { type: "toolCall", id: "1", name: "sum", arguments: { column: "orders" } },
  );
  result?.parts.push({ type: "toolResult", id: "1", name: "sum", text: "1190" });
  answer?.parts.unshift({ type: "thinking", text: "412 is the largest." });
  return new Map([[home.id, home]]);
}

/** One conversation of ten thousand messages, every kind of answer among them. */
function many(): Map<number, Conversation> {
  const turns = Array.from({ length: 10_000 }, (_, i) => {
    const sample = samples[Math.floor(i / 2) % samples.length];
    if (!sample) return "";
    return i % 2 === 0 ? `${sample[2]} (${i / 2 + 1})` : sample[3];
  });
  return new Map([[1, talk(1, "Ten thousand messages", Date.now(), turns)]]);
}

/** A download in every state, newest first. */
function everyDownload(): Download[] {
  const download = (
    id: number,
    name: string,
    source: string,
    done: number,
    total: number | null,
    state: Download["state"],
    bytesPerSecond = 0,
  ): Download => ({ id, name, source, done, total, bytesPerSecond, resumes: !source.startsWith("https:"), state });
  return [
    download(
      58,
      "Llama-3.3-70B-Instruct Q4_K_M",
      "hf.co/bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M",
      0,
      42_520_395_776,
      {
        type: "queued",
      },
    ),
    download(
      57,
      "Qwen3 4B Instruct 2507",
      "qwen3-4b-instruct-2507",
      1_071_334_080,
      2_497_281_120,
      { type: "running" },
      14_200_000,
    ),
    download(56, "stalls-1B Q4_K_M", "hf.co/someone/stalls-1B-GGUF:Q4_K_M", 241_000_000, 766_204_928, {
      type: "running",
    }),
    download(59, "Llama 3.2 3B", "llama-3.2-3b-instruct", 402_000_000, 2_019_377_696, {
      type: "waiting",
      problem: problem("download", {
        area: "models",
        type: "requestFailed",
        item: "Llama 3.2 3B",
        fetchFailure: { type: "hostNotFound" },
      }),
      retryAt: Date.now() + 1_815_000,
    }),
    download(55, "Qwen3-8B Q4_K_M", "hf.co/unsloth/Qwen3-8B-GGUF:Q4_K_M", 5_027_783_488, 5_027_783_488, {
      type: "checking",
    }),
    download(54, "gemma3:4b", "ollama://gemma3:4b", 912_000_000, 3_338_792_448, { type: "paused" }),
    download(51, "own-model.gguf", "https://models.example.org/own-model.gguf", 120_000_000, 402_653_184, {
      type: "paused",
    }),
    download(53, "fails-halfway-1B Q4_K_M", "hf.co/someone/fails-halfway-1B-GGUF:Q4_K_M", 306_481_971, 766_204_928, {
      type: "failed",
      problem: problem("diskFull", {
        area: "models",
        type: "noSpace",
        name: "fails-halfway-1B Q4_K_M",
        folder: "/home/you/.local/share/hearth/models",
        neededBytes: 459_722_957,
        freeBytes: 312_000_000,
      }),
    }),
    download(52, "Qwen3 0.6B", "qwen3-0.6b", 639_446_688, 639_446_688, { type: "done", model: qwen.id, adapter: null }),
  ];
}

export function initialWorld(scene: string | null): World {
  const machine = machineOf(scene);
  const models = [smol, qwen, lost];
  const world: World = {
    settings,
    models,
    ...machine,
    measurements: [],
    caches: fullCaches,
    modelState: loadedState(smol, settings, machine, models),
    conversations: library(),
    deleted: new Set(),
    pinned: new Set(),
    downloads: [],
    imported: new Set(),
  };
  switch (scene) {
    case "first-run":
    case "fresh":
      return { ...world, models: [smol], modelState: { type: "none" }, conversations: new Map() };
    case "busy-first-run":
      return { ...world, models: [smol], modelState: { type: "none" }, conversations: new Map(), pace: 60_000 };
    case "no-model":
      return { ...world, models: [], modelState: { type: "none" }, conversations: new Map() };
    case "discover":
      return { ...world, models: [smol, qwen, ...others, lost] };
    case "downloads":
      return { ...world, downloads: everyDownload(), pace: 60_000 };
    case "offline":
      return {
        ...world,
        settings: { ...settings, offline: true },
        downloads: everyDownload().filter(({ state }) => state.type === "paused"),
      };
    case "loading":
      return {
        ...world,
        modelState: { type: "loading", model: smol.id, fraction: 0.43, stage: { type: "readingWeights" } },
        pace: 1500,
      };
    case "failed":
      return {
        ...world,
        modelState: {
          type: "failed",
          model: lost.id,
          problem: lost.problem ?? MODEL_GONE,
        },
      };
    case "slow":
      return { ...world, pace: 700 };
    case "old-settings": {
      // Written by an older Hearth, before a GPU was removed.
      const old: Settings = { ...settings, device: "gpu0", trainingDevice: "0000:05:00.0", build: "rocm" };
      return { ...world, settings: old, modelState: loadedState(smol, old, machine, models) };
    }
    case "drafts": {
      const target = { ...qwen, drafts: [small.id] };
      const own = { ...settings, lastModel: target.id };
      const all = [smol, target, small, lost];
      return { ...world, settings: own, models: all, modelState: loadedState(target, own, machine, all) };
    }
    case "thinks":
      return {
        ...world,
        settings: { ...settings, lastModel: qwen.id },
        modelState: loadedState(qwen, settings, machine, models),
      };
    case "too-big":
      return {
        ...world,
        settings: { ...settings, lastModel: huge.id },
        models: [smol, qwen, huge],
        modelState: { type: "none" },
      };
    case "parts":
      return { ...world, conversations: everyPart() };
    case "formulas":
      return {
        ...world,
        conversations: new Map([
          [1, talk(1, "Formulas", Date.now(), ["Typeset these.", formulas])],
          [2, talk(2, "Other", Date.now(), ["What else?", "Nothing else."])],
        ]),
      };
    case "many":
      return { ...world, conversations: many(), pace: 4 };
    default:
      return world;
  }
}
