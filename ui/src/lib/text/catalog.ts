// Descriptions of the catalog's models (`models/catalog.toml`).

import { m } from "$messages";

export const descriptions: Readonly<Record<string, () => string>> = {
  "smollm2-135m-instruct": m.models_about_smollm2_135m_instruct,
  "qwen3-0.6b": m.models_about_qwen3_0_6b,
  "qwen2.5-0.5b-instruct": m.models_about_qwen2_5_0_5b_instruct,
  "gemma-3-1b-it": m.models_about_gemma_3_1b_it,
  "llama-3.2-1b-instruct": m.models_about_llama_3_2_1b_instruct,
  "olmo-2-1b-instruct": m.models_about_olmo_2_1b_instruct,
  "qwen2.5-1.5b-instruct": m.models_about_qwen2_5_1_5b_instruct,
  "qwen3-1.7b": m.models_about_qwen3_1_7b,
  "gemma-2-2b-it": m.models_about_gemma_2_2b_it,
  "smollm3-3b": m.models_about_smollm3_3b,
  "llama-3.2-3b-instruct": m.models_about_llama_3_2_3b_instruct,
  "granite-4.0-micro": m.models_about_granite_4_0_micro,
  "ministral-3-3b-instruct": m.models_about_ministral_3_3b_instruct,
  "gemma-3-4b-it": m.models_about_gemma_3_4b_it,
  "phi-4-mini-instruct": m.models_about_phi_4_mini_instruct,
  "qwen3-4b-instruct-2507": m.models_about_qwen3_4b_instruct_2507,
  "olmo-2-7b-instruct": m.models_about_olmo_2_7b_instruct,
  "qwen3-8b": m.models_about_qwen3_8b,
  "llama-3.1-8b-instruct": m.models_about_llama_3_1_8b_instruct,
  "gemma-2-9b-it": m.models_about_gemma_2_9b_it,
  "gemma-3-12b-it": m.models_about_gemma_3_12b_it,
  "mistral-nemo-instruct-2407": m.models_about_mistral_nemo_instruct_2407,
  "qwen3-14b": m.models_about_qwen3_14b,
  "phi-4": m.models_about_phi_4,
  "mistral-small-3.1-24b-instruct": m.models_about_mistral_small_3_1_24b_instruct,
};

/** One or two sentences about a model; `null` if it is not in the catalog that this page knows. */
export function catalogDescription(id: string | null): string | null {
  return id === null ? null : (descriptions[id]?.() ?? null);
}
