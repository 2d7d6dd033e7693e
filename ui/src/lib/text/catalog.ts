// Descriptions of the catalog's models (`models/catalog.toml`).

import { m } from "$messages";

export const descriptions: Readonly<Record<string, () => string>> = {
  "smollm2-135m-instruct": m.models_about_smollm2_135m_instruct,
  "qwen3-0.6b": m.models_about_qwen3_0_6b,
  "qwen2.5-0.5b-instruct": m.models_about_qwen2_5_0_5b_instruct,
  "gemma-3-1b-it": m.models_about_gemma_3_1b_it,
  "llama-3.2-1b-instruct": m.models_about_llama_3_2_1b_instruct,
  "qwen2.5-1.5b-instruct": m.models_about_qwen2_5_1_5b_instruct,
  "qwen3-1.7b": m.models_about_qwen3_1_7b,
  "llama-3.2-3b-instruct": m.models_about_llama_3_2_3b_instruct,
  "gemma-3-4b-it": m.models_about_gemma_3_4b_it,
  "qwen3-4b-instruct-2507": m.models_about_qwen3_4b_instruct_2507,
  "qwen3-8b": m.models_about_qwen3_8b,
  "llama-3.1-8b-instruct": m.models_about_llama_3_1_8b_instruct,
  "gemma-3-12b-it": m.models_about_gemma_3_12b_it,
  "qwen3-14b": m.models_about_qwen3_14b,
};

/** One or two sentences about a model; `null` if it is not in the catalog that this page knows. */
export function catalogDescription(id: string | null): string | null {
  return id === null ? null : (descriptions[id]?.() ?? null);
}
