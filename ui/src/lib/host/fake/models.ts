// Models of the fake host.

import { draftProblem } from "../../text/draft";
import type {
  DraftKind,
  DraftSetting,
  LoadSettings,
  Model,
  ModelState,
  Plan,
  Problem,
  SamplingParams,
  Settings,
} from "../wire";
import type { Machine } from "./devices";
import { planFor } from "./plans";
import { NO_FILE, problem } from "./problems";

const sampling: SamplingParams = {
  temperature: 0.2,
  topK: 40,
  topP: 0.9,
  minP: 0.05,
  repetitionPenalty: 1.1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  repeatLastN: 64,
  typicalP: 1,
  topNSigma: 0,
  xtcProbability: 0,
  xtcThreshold: 0.1,
  dryMultiplier: 0,
  dryBase: 1.75,
  dryAllowedLength: 2,
  dryLastN: 64,
  dryBreakers: ["\n", ":", '"', "*"],
  mirostat: false,
  mirostatTau: 5,
  mirostatEta: 0.1,
  dynatempRange: 0,
  dynatempExponent: 1,
  logitBias: [],
  bannedStrings: [],
  seed: null,
};

export const smol: Model = {
  id: "smollm2-135m-instruct",
  name: "SmolLM2 135M Instruct",
  path: "/opt/hearth/models/SmolLM2-135M-Instruct.Q4_1.gguf",
  fileSize: 98_362_432,
  architecture: "llama",
  checkedWithRealFile: true,
  quantization: "Q4_1",
  parameters: 134_515_008,
  contextTrained: 8192,
  catalogId: "smollm2-135m-instruct",
  systemPrompt: "You are a helpful assistant.",
  sampling,
  samplingSource: "catalog",
  source: "bundled",
  license: "Apache-2.0",
  downloadedFrom: null,
  isDeletable: false,
  problem: null,
  drafts: [],
};

export const qwen: Model = {
  ...smol,
  id: "qwen3-0.6b",
  name: "Qwen3 0.6B",
  path: "/home/you/models/Qwen3-0.6B-Q8_0.gguf",
  fileSize: 639_446_688,
  architecture: "qwen3",
  checkedWithRealFile: false,
  quantization: "Q8_0",
  parameters: 596_049_920,
  contextTrained: 40_960,
  catalogId: null,
  systemPrompt: null,
  sampling: { ...sampling, temperature: 0.7, topP: 0.8 },
  samplingSource: "builtIn",
  source: "file",
};

export const lost: Model = {
  ...qwen,
  id: "gemma-3-270m",
  name: "Gemma 3 270M",
  path: "/media/usb/gemma-3-270m-it-Q4_K_M.gguf",
  fileSize: 253_115_392,
  architecture: "gemma3",
  quantization: "Q4_K_M",
  parameters: 268_098_176,
  contextTrained: 32_768,
  problem: problem("fileUnreadable", {
    area: "models",
    type: "unreadable",
    path: "/media/usb/gemma-3-270m-it-Q4_K_M.gguf",
    detail: NO_FILE,
  }),
};

export function addedModel(path: string): Model {
  const file = path.split("/").at(-1) ?? path;
  return {
    ...qwen,
    id: file,
    name: file.replace(/\.[^.]+\.gguf$/, ""),
    path,
    fileSize: 32_112_640,
    quantization: "Q8_0",
    parameters: 30_142_848,
    contextTrained: 1024,
  };
}

/**
 * The chat template: ChatML for Qwen3, a short template for others, none for files of other
 * programs.
 */
export function templateOf({ architecture, source }: Model): string | null {
  if (source !== "bundled" && source !== "file") return null;
  if (architecture !== "qwen3")
    return "{% for message in messages %}{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\\n' }}{% endif %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
  const turns = ["system", "user", "assistant"].map(
    (role) =>
      `  {%- if message.role == "${role}" %}\n    {{- '<|im_start|>${role}\\n' + message.content + '<|im_end|>\\n' }}\n  {%- endif %}`,
  );
  return [
    "{%- for message in messages %}",
    ...turns,
    "{%- endfor %}",
    "{%- if add_generation_prompt %}",
    "  {{- '<|im_start|>assistant\\n' }}",
    "  {%- if enable_thinking is defined and enable_thinking is false %}",
    "    {{- '<think>\\n\\n</think>\\n\\n' }}",
    "  {%- endif %}",
    "{%- endif %}",
  ].join("\n");
}

/** A draft model, with the plans of an added model. */
export const small: Model = {
  ...addedModel("/home/you/models/Qwen3-Draft-120M.Q8_0.gguf"),
  id: "qwen3-draft-120m",
  name: "Qwen3 Draft 120M",
  fileSize: 127_401_984,
  parameters: 119_537_664,
  contextTrained: 40_960,
};

/** A model that fits on no machine here. */
export const huge: Model = {
  ...qwen,
  id: "llama-3.3-70b",
  name: "Llama 3.3 70B",
  path: "/home/you/models/Llama-3.3-70B-Instruct-Q4_K_M.gguf",
  fileSize: 42_520_395_776,
  architecture: "llama",
  checkedWithRealFile: true,
  quantization: "Q4_K_M",
  parameters: 70_553_706_496,
  contextTrained: 131_072,
};

/** The load settings of a model. */
function loadSettings(
  { threads, context, device, build, gpuLayers, kv, drafts }: Settings,
  { id }: Model,
): LoadSettings {
  return { threads, context, device, build, gpuLayers, kv, draft: drafts[id] ?? { type: "auto" } };
}

/** The draft that is used: like the app's, Automatic in place of a model that cannot draft. */
export function usedDraft(draft: DraftSetting, model: Model, models: readonly Model[]): DraftSetting {
  return draftProblem(draft, model, models) === null ? draft : { type: "auto" };
}

const draftKinds: Record<DraftSetting["type"], DraftKind | null> = {
  auto: "ngram",
  none: null,
  firstLayers: "firstLayers",
  model: "model",
};

/** The state after a load with these settings: ready, or failed if no plan can be made. */
export function loadedState(model: Model, settings: Settings, machine: Machine, models: readonly Model[]): ModelState {
  const load = loadSettings(settings, model);
  try {
    return readyState(model, load, planFor(model, load, machine, models), models);
  } catch (problem) {
    return { type: "failed", model: model.id, problem: problem as Problem };
  }
}

function readyState(
  model: Model,
  { threads, kv, draft }: LoadSettings,
  plan: Plan,
  models: readonly Model[],
): ModelState {
  return {
    type: "ready",
    model: model.id,
    info: {
      path: model.path,
      name: model.name,
      architecture: model.architecture,
      quantization: model.quantization,
      parameters: model.parameters,
      fileSize: model.fileSize,
      layers: plan.layersTotal - 1,
      context: plan.context,
      contextTrained: model.contextTrained,
      device: plan.devices.find((d) => d.id !== "cpu" && d.layers.length > 0)?.id ?? "cpu",
      threads: threads ?? 2,
      loadSeconds: 0.31,
      notices: [],
      gpuLayers: plan.gpuLayers,
      layersTotal: plan.layersTotal,
      kv,
      placement: plan.devices,
      draft: draftKinds[usedDraft(draft, model, models).type],
      thinking: { switch: model.architecture === "qwen3" ? true : null, effort: model.architecture === "qwen3" },
    },
    draftProblem: draftProblem(draft, model, models),
  };
}

/** Models of other programs, as a machine with a history has them. */
export const others: Model[] = [
  {
    ...qwen,
    id: "file-lm",
    name: "Llama 3.2 3B Instruct",
    path: "/home/you/.lmstudio/models/bartowski/Llama-3.2-3B-Instruct-GGUF/Llama-3.2-3B-Instruct-Q4_K_M.gguf",
    fileSize: 2_019_377_696,
    architecture: "llama",
    checkedWithRealFile: true,
    quantization: "Q4_K_M",
    parameters: 3_212_749_888,
    contextTrained: 131_072,
    source: "lmStudio",
    license: "Llama-3.2",
  },
  {
    ...qwen,
    id: "file-ollama",
    name: "gemma3:4b",
    path: "/home/you/.ollama/models/blobs/sha256-aeda25e63ebd698fab8638ffb778e68bed908b960d39d0becc650fa981609d25",
    fileSize: 3_338_792_448,
    architecture: "gemma3",
    quantization: "Q4_K_M",
    parameters: 4_299_915_632,
    contextTrained: 131_072,
    source: "ollama",
    license: "Gemma",
  },
  {
    ...qwen,
    id: "file-hf",
    name: "Qwen3 4B Instruct 2507",
    path: "/home/you/.cache/huggingface/hub/models--unsloth--Qwen3-4B-Instruct-2507-GGUF/snapshots/a06e946bb6b655725eafa393f4a9745d460374c9/Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
    fileSize: 2_497_281_120,
    quantization: "Q4_K_M",
    parameters: 4_022_468_096,
    contextTrained: 262_144,
    source: "huggingFace",
    license: "Apache-2.0",
    downloadedFrom: "hf.co/unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M",
  },
  {
    ...qwen,
    id: "file-jan",
    name: "Jan Nano",
    path: "/home/you/.local/share/Jan/data/llamacpp/models/jan-nano-4b-Q4_K_M/model.gguf",
    fileSize: 2_497_280_960,
    quantization: "Q4_K_M",
    parameters: 4_022_468_096,
    contextTrained: 40_960,
    source: "jan",
    license: null,
  },
  {
    ...qwen,
    id: "own-download",
    name: "SmolLM2 360M Instruct",
    path: "/home/you/.local/share/hearth/models/SmolLM2-360M-Instruct-Q8_0.gguf",
    fileSize: 386_404_992,
    architecture: "llama",
    checkedWithRealFile: true,
    quantization: "Q8_0",
    parameters: 361_821_120,
    contextTrained: 8192,
    catalogId: null,
    source: "catalog",
    license: "Apache-2.0",
    downloadedFrom: "hf.co/bartowski/SmolLM2-360M-Instruct-GGUF:Q8_0",
    isDeletable: true,
  },
];

/** The model in a folder that the user added. */
export function inFolder(folder: string): Model {
  return {
    ...qwen,
    id: `folder-${folder}`,
    name: "Phi 3 mini",
    path: `${folder}/Phi-3-mini-4k-instruct-q4.gguf`,
    fileSize: 2_393_231_072,
    architecture: "phi3",
    quantization: "Q4_K_M",
    parameters: 3_821_079_552,
    contextTrained: 4096,
    source: "folder",
    license: "MIT",
    isDeletable: false,
  };
}
