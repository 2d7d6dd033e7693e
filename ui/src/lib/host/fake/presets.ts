// Presets on the fake host. A preset with "broken" in its name or file is refused.

import { defaultChatSettings } from "../host";
import type { NewConversation, Preset, PresetValues, Presets, SamplingOverrides } from "../wire";
import { FakeDataFolder } from "./dataFolder";
import { problem } from "./problems";

const noValues: PresetValues = {
  systemPrompt: null,
  sampling: defaultChatSettings.sampling,
  maxTokens: null,
  stop: null,
  thinking: defaultChatSettings.thinking,
  jsonSchema: null,
};

const builtIn = (id: string, name: string, sampling: Partial<SamplingOverrides>): Preset => ({
  id: `built-in:${id}`,
  name,
  isBuiltIn: true,
  values: { ...noValues, sampling: { ...noValues.sampling, ...sampling } },
});

const builtIns: readonly Preset[] = [
  builtIn("precise", "Precise", { temperature: 0.2, topK: 40, topP: 0.9, minP: 0.05 }),
  builtIn("balanced", "Balanced", { temperature: 0.7, topK: 40, topP: 0.95, minP: 0.05 }),
  builtIn("creative", "Creative", { temperature: 1.1, topK: 0, topP: 1, minP: 0.05 }),
  builtIn("code", "Code", {
    temperature: 0.1,
    topK: 20,
    topP: 0.95,
    minP: 0.05,
    repetitionPenalty: 1,
    frequencyPenalty: 0,
    presencePenalty: 0,
  }),
];

const NO_PRESET = problem("notFound", { area: "chat", type: "noPreset" });

export class FakePresets extends FakeDataFolder {
  /** For tests: the preset's file that is chosen. */
  presetFile: string | null = "/home/you/Downloads/storyteller.json";
  /** For tests: exported presets. */
  presetExports: { id: string; path: string }[] = [];
  private ownPresets: Preset[] = [];
  private readonly deletedPresets = new Map<string, Preset>();
  private brokenPresets: Presets["broken"] = [];

  /** The presets of a scene. */
  protected fillPresets(): void {
    this.ownPresets = [
      {
        id: "storyteller",
        name: "Storyteller",
        isBuiltIn: false,
        values: {
          ...noValues,
          systemPrompt: "You tell stories. Show, don't tell.",
          sampling: { ...noValues.sampling, temperature: 1.2, minP: 0.1, dryMultiplier: 0.8 },
        },
      },
      {
        id: "mails",
        name: "Short mails",
        isBuiltIn: false,
        values: {
          ...noValues,
          sampling: { ...noValues.sampling, temperature: 0.4 },
          maxTokens: 300,
          stop: ["Best regards"],
        },
      },
    ];
    this.brokenPresets = [{ file: "old.json", problem: problem("dataInvalid", { area: "chat", type: "presetNewer" }) }];
  }

  async presets(): Promise<Presets> {
    const own = [...this.ownPresets].sort((a, b) => a.name.localeCompare(b.name));
    return { presets: [...builtIns, ...own], broken: this.brokenPresets };
  }

  async savePreset(name: string, values: PresetValues): Promise<Preset> {
    await this.refuseTaken(name, null);
    return this.addPreset({ id: `preset-${this.newId()}`, name: name.trim(), isBuiltIn: false, values });
  }

  async updatePreset(id: string, values: PresetValues): Promise<Preset> {
    return this.replacePreset(id, { values });
  }

  async renamePreset(id: string, name: string): Promise<Preset> {
    await this.refuseTaken(name, id);
    return this.replacePreset(id, { name: name.trim() });
  }

  async deletePreset(id: string): Promise<void> {
    this.deletedPresets.set(id, this.ownPreset(id));
    this.ownPresets = this.ownPresets.filter((preset) => preset.id !== id);
    await this.presetsChanged();
  }

  async restorePreset(id: string): Promise<Preset> {
    const preset = this.deletedPresets.get(id);
    if (!preset) throw NO_PRESET;
    this.deletedPresets.delete(id);
    return this.addPreset(preset);
  }

  async importPreset(path: string): Promise<Preset> {
    if (/broken/.test(path))
      throw problem("dataInvalid", {
        area: "chat",
        type: "presetUnreadable",
        path,
        cause: problem("dataInvalid", { area: "chat", type: "presetNotJson" }),
      });
    return this.addPreset({
      id: `preset-${this.newId()}`,
      name: "Imported",
      isBuiltIn: false,
      values: { ...noValues, maxTokens: 7 },
    });
  }

  async exportPreset(id: string, path: string): Promise<void> {
    this.presetExports.push({ id, path });
  }

  async choosePreset(): Promise<string | null> {
    return this.presetFile;
  }

  async choosePresetTarget(name: string): Promise<string | null> {
    return `/home/you/${name}.json`;
  }

  /** A conversation's settings after a preset was applied. */
  protected async withPreset(id: string, now: NewConversation): Promise<NewConversation> {
    const { presets } = await this.presets();
    const preset = presets.find((candidate) => candidate.id === id);
    if (!preset) throw NO_PRESET;
    const replaced = presets.find((candidate) => candidate.id === now.settings.preset)?.values.systemPrompt ?? null;
    const { systemPrompt, ...values } = preset.values;
    const ownPrompt = now.systemPrompt === replaced ? null : now.systemPrompt;
    return {
      settings: { ...now.settings, ...values, preset: id },
      systemPrompt: systemPrompt ?? ownPrompt,
      folder: now.folder,
      adapters: now.adapters,
    };
  }

  private async refuseTaken(name: string, except: string | null): Promise<void> {
    const { presets } = await this.presets();
    const isTaken = presets.some(
      (preset) => preset.id !== except && preset.name.toLowerCase() === name.trim().toLowerCase(),
    );
    if (isTaken) throw problem("badRequest", { area: "chat", type: "presetNameTaken", name: name.trim() });
  }

  private ownPreset(id: string): Preset {
    const preset = this.ownPresets.find((candidate) => candidate.id === id);
    if (!preset) throw NO_PRESET;
    return preset;
  }

  private async addPreset(preset: Preset): Promise<Preset> {
    this.ownPresets = [...this.ownPresets, preset];
    await this.presetsChanged();
    return preset;
  }

  private async replacePreset(id: string, change: Partial<Preset>): Promise<Preset> {
    const preset = { ...this.ownPreset(id), ...change };
    this.ownPresets = this.ownPresets.map((current) => (current.id === id ? preset : current));
    await this.presetsChanged();
    return preset;
  }

  private async presetsChanged(): Promise<void> {
    this.emit({ type: "presetsChanged", presets: await this.presets() });
  }
}
