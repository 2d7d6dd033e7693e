// Datasets of the fake host and their inspections. The inspections of the sample datasets are
// recorded from the engine, for the default model and automatic settings (recordings/tuning.json).
// Other datasets are made up: their names decide the contents.

import type {
  BrokenLine,
  BrokenReason,
  ColumnMapping,
  Dataset,
  Finding,
  Inspection,
  Piece,
  Preview,
  SampleDataset,
  TrainSettings,
} from "../wire";
import { detailed, NO_FILE, problem } from "./problems";
import recording from "./recordings/tuning.json?raw";

const DAY = 86_400_000;

export const emptyMapping: ColumnMapping = {
  messages: null,
  system: null,
  prompt: null,
  input: null,
  answer: null,
  text: null,
};

interface Recording {
  trainDefaults: TrainSettings;
  samples: Record<string, { size: number; inspection: Inspection }>;
}

const recorded = JSON.parse(recording) as Recording;
const SAMPLES = "/opt/hearth/datasets/";

/** The default settings of a run, recorded from the app. */
export const trainDefaults: TrainSettings = recorded.trainDefaults;

export const sampleDatasets: SampleDataset[] = Object.entries(recorded.samples).map(([file, { size }]) => ({
  name: file.charAt(0).toUpperCase() + file.slice(1).replace(/\.\w+$/, ""),
  path: SAMPLES + file,
  size,
}));

export function pastDatasets(): Dataset[] {
  const now = Date.now();
  return [
    {
      id: 11,
      name: "replies.jsonl",
      path: "/home/you/support/replies.jsonl",
      addedAt: now - 2 * DAY,
      examples: 412,
      problem: null,
    },
    {
      id: 12,
      name: "recipes.csv",
      path: "/home/you/kitchen/recipes.csv",
      addedAt: now - 5 * DAY,
      examples: 96,
      problem: null,
    },
    { id: 13, name: "notes.md", path: "/home/you/notes/notes.md", addedAt: now - 9 * DAY, examples: 58, problem: null },
    {
      id: 14,
      name: "old-letters.jsonl",
      path: "/media/usb/old-letters.jsonl",
      addedAt: now - 40 * DAY,
      examples: null,
      problem: problem("fileUnreadable", {
        area: "tune",
        type: "datasetUnreadable",
        path: "/media/usb/old-letters.jsonl",
        detail: NO_FILE,
      }),
    },
  ];
}

export function newDataset(id: number, path: string): Dataset {
  const file = path.split(/[/\\]/).at(-1) ?? path;
  return { id, name: file.replace(/\.\w+$/, ""), path, addedAt: Date.now(), examples: null, problem: null };
}

/** Splits a text into pieces of about a token each, as a tokenizer might. */
function tokens(text: string): string[] {
  return text.match(/\s?[^\s]{1,6}/g) ?? [];
}

const piece = (text: string, mark: Partial<Piece> = {}): Piece => ({
  text,
  tokens: Math.max(1, mark.template && text.includes("<|") ? text.split("<|").length + 1 : tokens(text).length),
  trained: false,
  template: false,
  truncated: false,
  ...mark,
});

/** A conversation as ChatML, trained on its answers. */
function chat(line: number, turns: string[], truncateAt?: number): Preview {
  const pieces: Piece[] = [
    piece("<|im_start|>system\n", { template: true }),
    piece("You are a helpful assistant."),
    piece("<|im_end|>\n", { template: true }),
  ];
  turns.forEach((text, i) => {
    pieces.push(piece(`<|im_start|>${i % 2 === 0 ? "user" : "assistant"}\n`, { template: true }));
    if (i % 2 === 0) pieces.push(piece(text), piece("<|im_end|>\n", { template: true }));
    else if (truncateAt !== undefined)
      pieces.push(
        piece(text.slice(0, truncateAt), { trained: true }),
        piece(text.slice(truncateAt), { trained: true, truncated: true }),
        piece("<|im_end|>\n", { template: true, trained: true, truncated: true }),
      );
    else
      pieces.push(
        piece(text, { trained: true }),
        piece("<|im_end|>", { template: true, trained: true }),
        piece("\n", { template: true }),
      );
  });
  return { line, pieces, tokens: pieces.reduce((sum, { tokens }) => sum + tokens, 0) };
}

const long =
  "Thank you for the photographs. The lamp left us whole, so it was broken on the way, and that is ours to put right. A new one goes out today with the same carrier, this time in the double box that we keep for glass. You need not send the old one back; if you can, please recycle it. I have also taken the postage off your bill, and should the second lamp have so much as a scratch, write to me directly and I will drive over with the third.";

const replies: Preview[] = [
  chat(1, [
    "My order is late, what now?",
    "Sorry about the wait. I have looked it up: it left Lyon this morning and should reach you on Tuesday.",
  ]),
  chat(2, [
    "Can I still change the color?",
    "Yes, gladly: it is not packed yet. Which color would you like?",
    "The green one, please.",
    "Green it is. You will get a new confirmation in a minute.",
  ]),
  chat(118, ["The lamp came broken. I attach photographs.", long], 240),
];

function inspection(change: Partial<Inspection>): Inspection {
  return {
    container: "jsonl",
    shape: "messages",
    columns: ["messages"],
    mapping: { ...emptyMapping, messages: "messages" },
    unsure: false,
    examples: 412,
    tokens: 58_210,
    trainedTokens: 31_904,
    lengths: [128, 306, 1180],
    sequence: 512,
    truncated: 0,
    previews: replies.slice(0, 2),
    findings: [],
    broken: [],
    brokenTotal: 0,
    ...change,
  };
}

const truncated: Finding = {
  kind: { type: "truncated", count: 9, sequence: 512 },
  severity: "warning",
  lines: [118, 131, 140, 203, 226, 240, 301, 355, 398],
};
const duplicates: Finding = {
  kind: { type: "nearDuplicates", count: 14 },
  severity: "note",
  lines: [17, 18, 52, 53, 77, 90, 91, 144, 145, 146, 209, 301, 302, 377],
};
const secrets: Finding = {
  kind: { type: "secrets", count: 2, secrets: [{ type: "emailPassword" }] },
  severity: "warning",
  lines: [41, 260],
};
const leaks: Finding = {
  kind: { type: "leaks", count: 6, total: 200 },
  severity: "warning",
  lines: [17, 52, 90, 144, 301, 377],
};

const unsure: Finding = {
  kind: { type: "unsure" },
  severity: "warning",
  lines: [],
};

const notJson: BrokenReason = { type: "notJson", detail: "EOF while parsing a string at character 212" };

const brokenLines: BrokenLine[] = [
  { line: 7, reason: notJson },
  { line: 31, reason: { type: "otherColumns", column: "messages", columns: ["question", "reply"] } },
  { line: 32, reason: { type: "notUtf8" } },
];

const broken: Finding = {
  kind: { type: "broken", count: 24, line: 7, broken: notJson },
  severity: "error",
  lines: [7, 31, 32, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56],
};

/** Inspects a dataset; throws a `Problem` if it cannot be read. */
export function inspect(
  dataset: Dataset,
  mapping: ColumnMapping | null,
  skipBroken: boolean,
  sequence: number | null,
): Inspection {
  if (dataset.problem) throw dataset.problem;
  const sample = dataset.path.startsWith(SAMPLES) ? recorded.samples[dataset.path.slice(SAMPLES.length)] : undefined;
  if (sample) return sample.inspection;
  if (/empty/.test(dataset.name))
    throw detailed("dataInvalid", `${dataset.path}: the file is empty. Choose one with examples in it.`);
  if (/recipes|\.csv$/.test(dataset.name)) {
    const sure = mapping !== null;
    return inspection({
      container: "csv",
      shape: "promptAnswer",
      columns: ["title", "ingredients", "method", "source"],
      mapping: mapping ?? { ...emptyMapping, prompt: "title", answer: "method" },
      unsure: !sure,
      examples: 96,
      tokens: 21_480,
      trainedTokens: 16_020,
      lengths: [204, 398, 466],
      previews: [
        chat(2, [
          "Rye bread, 80 % hydration",
          "Mix 500 g of rye flour with 400 g of warm water and 10 g of salt. Let it stand for twelve hours, then bake it for an hour at 220 °C.",
        ]),
        chat(3, [
          "Pea soup",
          "Sweat an onion in butter, add 600 g of peas and a litre of stock, and blend it after eight minutes.",
        ]),
      ],
      findings: sure ? [] : [unsure],
    });
  }
  if (/\.(md|txt)$/.test(dataset.name)) {
    const text =
      "The stove wants a handful of kindling and patience. Open the lower vent first; when the glass is clear, close it by half.";
    const pieces = [piece(text, { trained: true })];
    return inspection({
      container: "markdown",
      shape: "text",
      columns: [],
      mapping: emptyMapping,
      examples: 58,
      tokens: 29_330,
      trainedTokens: 29_330,
      lengths: [512, 512, 512],
      previews: [{ line: 1, pieces, tokens: 31 }],
      findings: [{ kind: { type: "longDocument" }, severity: "note", lines: [] }],
    });
  }
  if (/broken/.test(dataset.name)) {
    return inspection({
      examples: skipBroken ? 388 : 0,
      broken: brokenLines,
      brokenTotal: 24,
      truncated: 9,
      previews: replies,
      findings: [...(skipBroken ? [] : [broken]), secrets, leaks, truncated, duplicates],
    });
  }
  const limit = sequence ?? 512;
  const truncates = limit < 1180;
  return inspection({
    sequence: limit,
    truncated: truncates ? 9 : 0,
    previews: truncates
      ? replies
      : [...replies.slice(0, 2), chat(118, ["The lamp came broken. I attach photographs.", long])],
    findings: truncates ? [truncated, duplicates] : [duplicates],
  });
}
