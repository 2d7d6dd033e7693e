// Keeps the menu of the tray's icon up to date.

import type { Host, TrayContent } from "../host";

/** Milliseconds between two changes: a run reports its steps more often. */
const PAUSE = 1000;

/** Milliseconds after which an icon is asked for again: panels come and go. */
const AGAIN = 30_000;

export class Tray {
  /** Whether the tray has the icon; `null` if that is not known, or none is wanted. */
  shown: boolean | null = $state(null);
  private wanted: TrayContent | null = null;
  /**
   * The content that was sent last, as JSON; `null` before that, since the icon of an earlier page
   * may exist.
   */
  private sent: string | null = null;
  /** Whether the next content waits for the host, or for the end of the pause. */
  private waits = false;
  private again: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly host: Host) {}

  /** Shows this content, or no icon: at once, or after a pause if something was sent just now. */
  show(content: TrayContent | null): void {
    this.wanted = content;
    if (content === null) this.shown = null;
    if (!this.waits && this.changed()) void this.send();
  }

  private changed(): boolean {
    return JSON.stringify(this.wanted) !== this.sent;
  }

  private async send(): Promise<void> {
    clearTimeout(this.again);
    const content = this.wanted;
    this.sent = JSON.stringify(content);
    this.waits = true;
    const has = await this.host.setTray(content).catch(() => false);
    if (this.wanted !== null) this.shown = content === null ? null : has;
    setTimeout(() => {
      this.waits = false;
      if (this.changed()) void this.send();
      else if (content !== null) this.again = setTimeout(() => void this.send(), AGAIN);
    }, PAUSE);
  }
}
