// The target of the settings fields: the open conversation, or a folder in its dialog.

import { getContext, setContext } from "svelte";
import type { ConversationSettings, Model, SamplingParams } from "../../host";
import { useApp } from "../../stores/app.svelte";

export interface Target {
  readonly settings: ConversationSettings;
  readonly systemPrompt: string | null;
  /** Default sampling parameters, including the folder's. */
  readonly defaults: SamplingParams | null;
  /** Settings of the conversation's folder, which are its defaults. */
  readonly folder: ConversationSettings | null;
  /** The model whose defaults apply. */
  readonly model: Model | null;
  set(settings: ConversationSettings): Promise<void>;
  /** Applies a preset, whose system prompt, if it has one, replaces the target's. */
  applyPreset(id: string): Promise<void>;
}

const KEY = Symbol("target");

export function provideTarget(target: Target): Target {
  return setContext(KEY, target);
}

/** The target that was provided, or else the open conversation. */
export function useTarget(): Target {
  const app = useApp();
  return (
    getContext<Target | undefined>(KEY) ?? {
      get settings() {
        return app.thread.settings;
      },
      get systemPrompt() {
        return app.thread.systemPrompt;
      },
      get defaults() {
        return app.chatDefaults;
      },
      get folder() {
        return app.folder?.settings ?? null;
      },
      get model() {
        return app.chatModel;
      },
      set: (settings) => app.thread.setSettings(settings),
      applyPreset: (id) => app.presets.apply(id),
    }
  );
}
