// Owns the settings, and applies the look and the text size.

import { defaultSettings, type Host, type Settings } from "../host";
import { language } from "../text/language.svelte";
import { onContrast, showLook } from "./look";

/** Text sizes in percent. */
export const TEXT_SIZES: readonly number[] = [85, 100, 110, 125, 150, 175, 200];

export class SettingsStore {
  value: Settings = $state.raw(defaultSettings);
  version = $state("");
  /** Text size that the window has. */
  private zoomed = 100;

  constructor(private readonly host: Host) {
    onContrast(() => showLook(this.value));
  }

  fill(settings: Settings, version: string): void {
    this.value = settings;
    this.version = version;
    this.show();
  }

  async change(change: Partial<Settings>): Promise<void> {
    const before = this.value;
    this.value = { ...before, ...change };
    this.show();
    try {
      await this.host.setSettings(this.value);
      await this.zoom();
    } catch (thrown) {
      this.value = before;
      this.show();
      throw thrown;
    }
  }

  private show(): void {
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
