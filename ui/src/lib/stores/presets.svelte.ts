// Owns the presets, and the preset of the open conversation.

import { m } from "$messages";
import type {
  BrokenPreset,
  ConversationSettings,
  Host,
  Announced,
  NewConversation,
  Preset,
  Presets as PresetList,
  PresetValues,
} from "../host";
import { same } from "../text/same";
import { Reading } from "./reading";
import type { Thread } from "./thread.svelte";
import type { Toasts } from "./toasts.svelte";

/** The parts of the app that presets act on. */
interface Parts {
  chatSettings: boolean;
  readonly host: Host;
  readonly thread: Thread;
  readonly toasts: Toasts;
  /** Runs an action and shows its error. Returns `false` if it fails. */
  try(action: () => Promise<unknown>): Promise<boolean>;
}

/** The purpose of a typed name: a new preset, or a new name for one. */
export type Naming = { for: "new" } | { for: "rename"; preset: Preset };

export class Presets {
  all: readonly Preset[] = $state.raw([]);
  broken: readonly BrokenPreset[] = $state.raw([]);
  naming: Naming | null = $state.raw(null);
  private readonly reading = new Reading((event) => {
    if (event.type === "presetsChanged") this.fill(event.presets);
  });

  constructor(private readonly app: Parts) {}

  /** The preset of the open conversation. */
  readonly chosen: Preset | null = $derived.by(
    () => this.all.find(({ id }) => id === this.app.thread.settings.preset) ?? null,
  );

  /** Whether the conversation differs from its preset. */
  readonly modified: boolean = $derived.by(() => this.chosen !== null && differs(this.chosen, this.now));

  /** The conversation's settings in the form of a preset. */
  get now(): PresetValues {
    const { systemPrompt, settings } = this.app.thread;
    return valuesOf(settings, systemPrompt);
  }

  async load(): Promise<void> {
    await this.reading.read(
      this.app.host,
      (host) => host.presets(),
      (list) => this.fill(list),
    );
  }

  handle(event: Announced): void {
    this.reading.handle(event);
  }

  private fill({ presets, broken }: PresetList): void {
    this.all = presets;
    this.broken = broken;
  }

  /** Applies a preset to the open conversation. */
  async apply(id: string): Promise<void> {
    const { thread, host } = this.app;
    const { id: conversation, settings, systemPrompt } = thread;
    const applied = await host.applyPreset(id, conversation, {
      settings,
      systemPrompt,
      folder: thread.folder,
      adapters: [...thread.adapters],
    });
    if (thread.id === conversation) thread.show(applied);
  }

  /** Settings of the open conversation with a preset as it was, as {@link apply} changes them. */
  with(
    { id, values: { systemPrompt, ...values } }: Preset,
    now: Pick<NewConversation, "settings" | "systemPrompt">,
  ): typeof now {
    const isReplaced = this.chosen !== null && this.chosen.values.systemPrompt === now.systemPrompt;
    return {
      settings: { ...now.settings, ...values, preset: id },
      systemPrompt: systemPrompt ?? (isReplaced ? null : now.systemPrompt),
    };
  }

  /** Detaches the preset; the settings stay. */
  async leave(): Promise<void> {
    const { thread } = this.app;
    await thread.setSettings({ ...thread.settings, preset: null });
  }

  /** Opens the name field in the panel. */
  ask(naming: Naming): void {
    this.app.chatSettings = true;
    this.naming = naming;
  }

  /** Saves the conversation's settings as a new preset, or renames one. */
  async name(name: string): Promise<void> {
    const { thread, host } = this.app;
    const { naming } = this;
    if (!naming) return;
    if (naming.for === "rename") await host.renamePreset(naming.preset.id, name);
    else {
      const saved = await host.savePreset(name, this.now);
      await thread.setSettings({ ...thread.settings, preset: saved.id });
    }
    this.naming = null;
  }

  /** Replaces a preset's settings with the conversation's settings. */
  async update({ id, name }: Preset): Promise<void> {
    await this.app.host.updatePreset(id, this.now);
    this.app.toasts.show({ kind: "note", text: m.store_preset_updated({ name }) });
  }

  async remove({ id, name }: Preset): Promise<void> {
    await this.app.host.deletePreset(id);
    const undo = () => void this.app.try(() => this.app.host.restorePreset(id));
    this.app.toasts.show({
      kind: "note",
      text: m.store_preset_deleted({ name }),
      action: { label: m.store_undo(), run: undo },
    });
  }

  /** Asks for a file and imports it. */
  async import(): Promise<void> {
    const path = await this.app.host.choosePreset(m.action_import_preset(), m.shell_files_presets());
    if (path === null) return;
    const { name } = await this.app.host.importPreset(path);
    this.app.toasts.show({ kind: "note", text: m.store_preset_imported({ name }) });
  }

  /** Asks for a file and exports a preset to it. */
  async export({ id, name }: Preset): Promise<void> {
    const path = await this.app.host.choosePresetTarget(name, m.shell_dialog_export({ name }), m.shell_files_presets());
    if (path === null) return;
    await this.app.host.exportPreset(id, path);
    this.app.toasts.show({ kind: "note", text: m.store_written({ path }) });
  }
}

/** The settings in the form of a preset. */
export function valuesOf(
  { sampling, maxTokens, stop, thinking, jsonSchema }: ConversationSettings,
  systemPrompt: string | null,
): PresetValues {
  return { systemPrompt, sampling, maxTokens, stop, thinking, jsonSchema };
}

/**
 * Whether settings differ from a preset's. A preset without a system prompt leaves the system
 * prompt unchanged.
 */
export function differs(preset: Preset, { systemPrompt: own, ...now }: PresetValues): boolean {
  const { systemPrompt, ...values } = preset.values;
  return !same(values, now) || (systemPrompt !== null && systemPrompt !== own);
}
