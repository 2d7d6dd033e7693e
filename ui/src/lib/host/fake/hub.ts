// The hub of the fake host: a dozen repositories, with every kind of trouble among them.

import type {
  Adapter,
  Device,
  HubKind,
  HubModel,
  HubRepository,
  HubSort,
  HubVariant,
  Model,
  Notice,
  Plan,
  RemoteModel,
  Verdict,
} from "../wire";
import { expectationOf } from "./expectations";
import { detailed, problem } from "./problems";

const DAY = 86_400_000;
/** Bytes per parameter of a variant. */
const kinds: [name: string, bytes: number][] = [
  ["Q2_K", 0.42],
  ["IQ3_M", 0.47],
  ["Q3_K_M", 0.51],
  ["IQ4_XS", 0.56],
  ["Q4_0", 0.58],
  ["Q4_K_M", 0.62],
  ["Q5_K_M", 0.72],
  ["Q6_K", 0.82],
  ["Q8_0", 1.06],
  ["BF16", 2],
  ["F32", 4],
];
/** Size above which a file is split. */
const PART = 5e9;

interface Repository {
  id: string;
  downloads: number;
  likes: number;
  days: number | null;
  architecture: string | null;
  isSupported: boolean | null;
  parameters: number | null;
  context: number | null;
  license: string | null;
  isGated?: boolean;
  /** The base of a repository with a PEFT adapter. */
  base?: string;
  /**
   * Ids of the repositories with GGUF files that were converted from this safetensors repository.
   */
  conversions?: string[];
}

const repositories: Repository[] = [
  {
    id: "unsloth/Qwen3-4B-Instruct-2507-GGUF",
    downloads: 412_803,
    likes: 218,
    days: 12,
    architecture: "qwen3",
    isSupported: true,
    parameters: 4_022_468_096,
    context: 262_144,
    license: "Apache-2.0",
  },
  {
    id: "unsloth/Qwen3-0.6B-GGUF",
    downloads: 156_220,
    likes: 91,
    days: 40,
    architecture: "qwen3",
    isSupported: true,
    parameters: 596_049_920,
    context: 40_960,
    license: "Apache-2.0",
  },
  {
    id: "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
    downloads: 88_410,
    likes: 74,
    days: 420,
    architecture: "qwen2",
    isSupported: true,
    parameters: 494_032_768,
    context: 32_768,
    license: "Apache-2.0",
  },
  {
    id: "ggml-org/gemma-3-1b-it-GGUF",
    downloads: 97_331,
    likes: 45,
    days: 230,
    architecture: "gemma3",
    isSupported: true,
    parameters: 999_885_952,
    context: 32_768,
    license: "Gemma",
  },
  {
    id: "google/gemma-3-4b-it-qat-q4_0-gguf",
    downloads: 61_992,
    likes: 312,
    days: 200,
    architecture: "gemma3",
    isSupported: true,
    parameters: 3_880_263_168,
    context: 131_072,
    license: "Gemma",
    isGated: true,
  },
  {
    id: "bartowski/Llama-3.2-3B-Instruct-GGUF",
    downloads: 143_007,
    likes: 180,
    days: 400,
    architecture: "llama",
    isSupported: true,
    parameters: 3_212_749_888,
    context: 131_072,
    license: "Llama-3.2",
  },
  {
    id: "bartowski/Llama-3.3-70B-Instruct-GGUF",
    downloads: 54_219,
    likes: 140,
    days: 350,
    architecture: "llama",
    isSupported: true,
    parameters: 70_553_706_496,
    context: 131_072,
    license: "Llama-3.3",
  },
  {
    id: "unsloth/Qwen3-30B-A3B-GGUF",
    downloads: 230_114,
    likes: 402,
    days: 60,
    architecture: "qwen3moe",
    isSupported: true,
    parameters: 30_532_122_624,
    context: 40_960,
    license: "Apache-2.0",
  },
  {
    id: "ibm-granite/granite-4.0-h-tiny-GGUF",
    downloads: 20_551,
    likes: 33,
    days: 31,
    architecture: "granitehybrid",
    isSupported: false,
    parameters: 6_939_037_248,
    context: 131_072,
    license: "Apache-2.0",
  },
  {
    id: "campfire/🔥-Spicy-Storyteller-7B-✨-GGUF",
    downloads: 1_402,
    likes: 17,
    days: 3,
    architecture: "llama",
    isSupported: true,
    parameters: 7_241_732_096,
    context: 32_768,
    license: null,
  },
  {
    id: `merge-lab/${"very-long-merge-of-".repeat(15)}models`,
    downloads: 12,
    likes: 0,
    days: 1,
    architecture: "llama",
    isSupported: true,
    parameters: 8_030_261_248,
    context: 8192,
    license: "Other",
  },
  {
    id: "someone/mystery-model-gguf",
    downloads: 301,
    likes: 2,
    days: null,
    architecture: null,
    isSupported: null,
    parameters: null,
    context: null,
    license: null,
  },
  {
    id: "campfire/SmolLM2-135M-Fireside-Poet-LoRA",
    downloads: 1_912,
    likes: 31,
    days: 8,
    architecture: null,
    isSupported: null,
    parameters: null,
    context: null,
    license: "Apache-2.0",
    base: "HuggingFaceTB/SmolLM2-135M-Instruct",
  },
  {
    id: "someone/Llama-3.2-3B-Letters-LoRA",
    downloads: 240,
    likes: 4,
    days: 77,
    architecture: null,
    isSupported: null,
    parameters: null,
    context: null,
    license: "Llama-3.2",
    base: "meta-llama/Llama-3.2-3B-Instruct",
  },
  {
    id: "Qwen/Qwen3-4B-Instruct-2507",
    downloads: 5_120_044,
    likes: 612,
    days: 100,
    architecture: null,
    isSupported: null,
    parameters: 4_022_468_096,
    context: null,
    license: "Apache-2.0",
    conversions: ["unsloth/Qwen3-4B-Instruct-2507-GGUF"],
  },
  {
    id: "someone/unconverted-1B",
    downloads: 11,
    likes: 0,
    days: 5,
    architecture: null,
    isSupported: null,
    parameters: 1_100_000_000,
    context: null,
    license: "MIT",
    conversions: [],
  },
  {
    id: "someone/fails-halfway-1B-GGUF",
    downloads: 8,
    likes: 1,
    days: 90,
    architecture: "llama",
    isSupported: true,
    parameters: 1_235_814_400,
    context: 131_072,
    license: "MIT",
  },
  {
    id: "someone/stalls-1B-GGUF",
    downloads: 5,
    likes: 0,
    days: 91,
    architecture: "llama",
    isSupported: true,
    parameters: 1_235_814_400,
    context: 131_072,
    license: "MIT",
  },
];

const orders: Record<HubSort, (a: Repository, b: Repository) => number> = {
  trending: () => 0,
  downloads: (a, b) => b.downloads - a.downloads,
  likes: (a, b) => b.likes - a.likes,
  updated: (a, b) => (a.days ?? Infinity) - (b.days ?? Infinity),
};

export function searchOf(query: string, sort: HubSort, kind: HubKind, devices: readonly Device[]): HubModel[] {
  const words = query
    .toLowerCase()
    .split(/\s+/)
    .filter((word) => word !== "");
  const matches = repositories
    .filter(({ id }) => words.every((word) => id.toLowerCase().includes(word)))
    .filter((repository) => kindOf(repository) === kind);
  return [...matches].sort(orders[sort]).map((repository) => modelOf(repository, devices));
}

/** The repositories with files converted from a repository. */
export function conversionsOf(id: string, devices: readonly Device[]): HubModel[] {
  const ids = repositories.find((repository) => repository.id === id)?.conversions ?? [];
  return repositories
    .filter((repository) => ids.includes(repository.id))
    .map((repository) => modelOf(repository, devices));
}

function kindOf({ base, conversions }: Repository): HubKind {
  if (conversions) return "originals";
  return base === undefined ? "models" : "adapters";
}

function modelOf(
  { id, downloads, likes, days, architecture, isSupported, parameters, context, isGated, base }: Repository,
  devices: readonly Device[],
): HubModel {
  return {
    id,
    downloads,
    likes,
    updatedAt: days === null ? null : Date.now() - days * DAY,
    architecture,
    isSupported,
    parameters,
    contextTrained: context,
    isGated: isGated ?? false,
    isAdapter: base !== undefined,
    base: base ?? null,
    expectation: parameters === null ? null : expectationOf(parameters * 0.58, devices),
  };
}

export function repositoryOf(
  id: string,
  devices: readonly Device[],
  models: readonly Model[],
  adapters: readonly Adapter[],
): HubRepository {
  const repository = repositories.find((candidate) => candidate.id === id);
  if (!repository)
    throw problem("download", {
      area: "models",
      type: "requestFailed",
      item: id,
      fetchFailure: { type: "loginRequired" },
    });
  if (repository.conversions)
    return {
      id,
      page: `https://huggingface.co/${id}`,
      license: repository.license,
      isGated: false,
      base: null,
      variants: [],
    };
  if (repository.base !== undefined) return adapterRepository(repository, repository.base, devices, adapters);
  const variants = repository.id.startsWith("google/") ? kinds.filter(([name]) => name === "Q4_0") : kinds;
  const all = variants.map(([name, bytes]) =>
    variant(repository, name, bytes * (repository.parameters ?? 1e9), devices, models),
  );
  const best = all.findLast(
    ({ expectation, name }) =>
      expectation.verdict.type === "fits" && (expectation.tokensPerSecond ?? 0) > 8 && !/16|32/.test(name),
  );
  return {
    id,
    page: `https://huggingface.co/${id}`,
    license: repository.license,
    isGated: repository.isGated ?? false,
    base: null,
    variants: all.map((variant) => ({ ...variant, isRecommended: variant === best })),
  };
}

/** A repository with one PEFT adapter. */
function adapterRepository(
  { id, license }: Repository,
  base: string,
  devices: readonly Device[],
  adapters: readonly Adapter[],
): HubRepository {
  const source = `hf.co/${id}`;
  const adapter = adapters.find(({ downloadedFrom }) => downloadedFrom === source)?.id ?? null;
  const size = 19_562_496;
  const variant: HubVariant = {
    name: "PEFT",
    file: "adapter_config.json",
    files: 2,
    size,
    expectation: expectationOf(size, devices),
    isRecommended: false,
    isAdapter: true,
    model: null,
    adapter,
    source,
  };
  return { id, page: `https://huggingface.co/${id}`, license, isGated: false, base, variants: [variant] };
}

/** The base of the adapter at a source; `null` if that is no adapter. */
export function adapterBaseOf(source: string): string | null {
  return repositories.find(({ id }) => source === `hf.co/${id}`)?.base ?? null;
}

function variant(
  { id }: Repository,
  name: string,
  size: number,
  devices: readonly Device[],
  models: readonly Model[],
): HubVariant {
  const files = size > 2 * PART ? Math.ceil(size / PART) : 1;
  const stem = `${(id.split("/")[1] ?? id).replace(/-gguf$/i, "").slice(0, 60)}-${name}`;
  const source = `hf.co/${id}:${name}`;
  return {
    name,
    file: files === 1 ? `${stem}.gguf` : `${name}/${stem}-00001-of-${String(files).padStart(5, "0")}.gguf`,
    files,
    size: Math.round(size),
    expectation: expectationOf(size, devices),
    isRecommended: false,
    isAdapter: false,
    adapter: null,
    model: models.find(({ downloadedFrom }) => downloadedFrom === source)?.id ?? null,
    source,
  };
}

/** The repository and variant of a source; `null` if the fake hub does not have it. */
export function variantOf(
  source: string,
  devices: readonly Device[],
): { repository: Repository; variant: HubVariant } | null {
  const match = /(?:hf\.co|huggingface\.co)\/([^/\s]+\/[^/:\s]+)(?::(\S+))?/.exec(source);
  const repository = repositories.find(({ id }) => id === match?.[1]);
  if (!repository) return null;
  const { variants } = repositoryOf(repository.id, devices, [], []);
  const chosen =
    variants.find(({ name }) => name === match?.[2]) ??
    variants.find(({ isRecommended }) => isRecommended) ??
    variants[0];
  return chosen ? { repository, variant: chosen } : null;
}

/** The header of a file on the hub. `like` gives the plan its devices. */
export function remoteOf(source: string, devices: readonly Device[], like: Plan): RemoteModel {
  // A file outside the hub gets the header of a file on the hub.
  const match =
    variantOf(source, devices) ??
    (/^ollama:\/\/|\.gguf$/i.test(source) ? variantOf("hf.co/unsloth/Qwen3-0.6B-GGUF:Q8_0", devices) : null);
  if (!match)
    throw problem("download", {
      area: "models",
      type: "requestFailed",
      item: source,
      fetchFailure: { type: "notFound" },
    });
  const { repository, variant } = match;
  if (repository.isGated)
    throw problem("download", {
      area: "models",
      type: "requestFailed",
      item: repository.id,
      fetchFailure: { type: "loginRefused" },
    });
  if (repository.isSupported === false)
    throw detailed("unsupported", `Hearth does not support the architecture '${repository.architecture}' yet.`);
  const { verdict } = variant.expectation;
  return {
    name: (repository.id.split("/")[1] ?? repository.id).replace(/-gguf$/i, ""),
    architecture: repository.architecture ?? "llama",
    quantization: variant.name,
    parameters: repository.parameters ?? 1_100_048_384,
    contextTrained: repository.context ?? 0,
    fileSize: variant.size,
    plan: { ...like, fits: verdict.type !== "wontFit", verdict, notices: [noticeOf(verdict, variant.size, devices)] },
  };
}

/** The notice of a verdict on a model of this size. */
function noticeOf(verdict: Verdict, size: number, devices: readonly Device[]): Notice {
  const cpu = devices.find(({ kind }) => kind === "cpu");
  switch (verdict.type) {
    case "fits":
      return { type: "fits" };
    case "fitsWithLessContext":
      return { type: "contextTooLong", context: 32_768, fits: verdict.context };
    case "slow":
      return { type: "slowOnCpu", bytes: size };
    case "wontFit":
      return {
        type: "deviceFull",
        device: cpu?.name ?? "CPU",
        neededBytes: Math.round(size * 1.12),
        freeBytes: cpu?.memoryFree ?? 0,
      };
  }
}
