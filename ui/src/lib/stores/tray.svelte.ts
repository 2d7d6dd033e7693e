// Keeps the menu of the tray's icon up to date.

import type { Host, TrayContent } from "../host";

/** Milliseconds between two changes, as a run reports its steps more often, and after a tray was not there. */
const PAUSE = 1000;
const MISSING_PAUSE = 30_000;

const NONE = JSON.stringify(null);

export class Tray {
  /** Whether the tray has the icon that was asked for last; `null` before the first answer. */
  shown: boolean | null = $state(null);
  private wanted: TrayContent | null = null;
  /** What the tray shows, as JSON. */
  private sent = NONE;
  private timer: ReturnType<typeof setTimeout> | null = null;

  constructor(private readonly host: Host) {}

  /** Shows this content, or no icon: at once, or after a pause if something was sent just now. */
  show(content: TrayContent | null): void {
    this.wanted = content;
    if (this.timer === null) void this.send();
  }

  private async send(): Promise<void> {
    const content = this.wanted;
    const text = JSON.stringify(content);
    if (text === this.sent) return;
    this.sent = text;
    this.pause(PAUSE);
    this.shown = await this.host.setTray(content).catch(() => false);
    if (this.shown || content === null) return;
    // Panels come and go.
    this.sent = NONE;
    this.pause(MISSING_PAUSE);
  }

  private pause(milliseconds: number): void {
    if (this.timer !== null) clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.timer = null;
      void this.send();
    }, milliseconds);
  }
}
