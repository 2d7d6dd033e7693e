// The system prompt that a conversation inherits if it does not set one.

import type { App } from "../stores/app.svelte";

/** `text`: `null` means that the chat template decides. */
export interface InheritedPrompt {
  text: string | null;
  from: "folder" | "adapter" | "model";
}

/**
 * The instructions of the folder, or else the prompt that the first adapter of a run was trained
 * under, or else the model's default.
 */
export function inheritedPrompt(app: App, ofModel: string | null): InheritedPrompt {
  const ofFolder = app.folder?.systemPrompt ?? null;
  if (ofFolder !== null) return { text: ofFolder, from: "folder" };
  for (const { adapter } of app.thread.adapters) {
    const run = app.adapters.get(adapter)?.run ?? null;
    const settings = run === null ? undefined : app.runs.all.find(({ id }) => id === run)?.settings;
    if (settings) return { text: settings.systemPrompt, from: "adapter" };
  }
  return { text: ofModel, from: "model" };
}
