// Keeps the menu of the tray icon up to date.

import type { Host, TrayContent } from "../host";

/** Minimum milliseconds between two updates: a run reports steps more often. */
const PAUSE = 1000;

/**
 * Milliseconds after which the icon is requested again, since the panel of the desktop may have
 * restarted.
 */
const AGAIN = 30_000;

export class Tray {
  /** Whether the tray shows the icon; `null` if unknown, or if no icon was requested. */
  shown: boolean | null = $state(null);
  private pending: TrayContent | null = null;
  /**
   * The content that was sent last, as JSON; `null` before that, since the icon of an earlier page
   * may exist.
   */
  private sent: string | null = null;
  /** Whether an update is in flight or the pause after it has not ended. */
  private waits = false;
  private retryTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly host: Host) {}

  /**
   * Shows the content, or removes the icon if `null`. Waits for the pause after the last update.
   */
  show(content: TrayContent | null): void {
    this.pending = content;
    if (content === null) this.shown = null;
    if (!this.waits && this.changed()) void this.send();
  }

  private changed(): boolean {
    return JSON.stringify(this.pending) !== this.sent;
  }

  private async send(): Promise<void> {
    clearTimeout(this.retryTimer);
    const content = this.pending;
    this.sent = JSON.stringify(content);
    this.waits = true;
    const has = await this.host.setTray(content).catch(() => false);
    if (this.pending !== null) this.shown = content === null ? null : has;
    setTimeout(() => {
      this.waits = false;
      if (this.changed()) void this.send();
      else if (content !== null) this.retryTimer = setTimeout(() => void this.send(), AGAIN);
    }, PAUSE);
  }
}
