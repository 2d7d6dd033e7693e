// Owns the settings, and applies the theme.

import { defaultSettings, type Host, type Settings, type Theme } from "../host";

export class SettingsStore {
  value: Settings = $state.raw(defaultSettings);
  version = $state("");

  constructor(private readonly host: Host) {}

  fill(settings: Settings, version: string): void {
    this.value = settings;
    this.version = version;
    showTheme(settings.theme);
  }

  async change(change: Partial<Settings>): Promise<void> {
    const before = this.value;
    this.value = { ...before, ...change };
    showTheme(this.value.theme);
    try {
      await this.host.setSettings(this.value);
    } catch (thrown) {
      this.value = before;
      showTheme(before.theme);
      throw thrown;
    }
  }
}

function showTheme(theme: Theme): void {
  if (typeof document === "undefined") return;
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}
