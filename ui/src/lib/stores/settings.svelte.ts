// Owns the settings, and applies the look and the text size.

import { defaultSettings, type Host, type Settings } from "../host";
import { language } from "../text/language.svelte";
import { onContrast, showLook } from "./look";
import { Turns } from "./turns";

/** Text sizes in percent. */
export const TEXT_SIZES: readonly number[] = [85, 100, 110, 125, 150, 175, 200];

export class SettingsStore {
  /** The saved settings with the pending changes. */
  value: Settings = $state.raw(defaultSettings);
  version = $state("");
  /** Current text size of the window. */
  private zoomed = 100;
  /** Saved settings. */
  private saved: Settings = defaultSettings;
  /** Pending changes, oldest first. */
  private readonly changes = new Set<Partial<Settings>>();
  private readonly turns = new Turns();

  constructor(private readonly host: Host) {
    onContrast(() => showLook(this.value));
  }

  fill(settings: Settings, version: string): void {
    this.saved = settings;
    this.version = version;
    this.update();
  }

  async change(change: Partial<Settings>): Promise<void> {
    this.changes.add(change);
    this.update();
    try {
      // A change that failed before is not part of the saved settings.
      await this.turns.run(async () => {
        const settings = { ...this.saved, ...change };
        await this.host.setSettings(settings);
        this.saved = settings;
      });
    } finally {
      this.changes.delete(change);
      this.update();
    }
    await this.zoom();
  }

  private update(): void {
    this.value = Object.assign({}, this.saved, ...this.changes) as Settings;
    showLook(this.value);
    language.choose(this.value.language);
  }

  /** Applies the text size. */
  async zoom(): Promise<void> {
    const size = Math.min(Math.max(this.value.textSize, TEXT_SIZES[0] ?? 100), TEXT_SIZES.at(-1) ?? 100);
    if (size === this.zoomed) return;
    await this.host.setZoom(size / 100);
    this.zoomed = size;
  }
}
