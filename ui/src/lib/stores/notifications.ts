// Notifies of long answers, downloads and runs that have ended. The system shows a notification
// only while the window does not have the focus.

import { m } from "$messages";
import { isActive, type Download, type Host, type HostEvent, type Message, type Run } from "../host";

/** Duration in milliseconds above which the end of an answer is notified. */
const LONG_ANSWER = 20_000;

interface Parts {
  readonly host: Host;
  /** Whether the user wants notifications. */
  wanted(): boolean;
  title(conversation: number): string | null;
}

export class Notifications {
  /** When the answers in progress began, by message. */
  private readonly startedAt = new Map<number, number>();
  /** Active downloads. */
  private active = new Set<number>();

  constructor(
    private readonly parts: Parts,
    private readonly now: () => number = Date.now,
  ) {}

  /**
   * Notifies if an event ends an answer, a download or a run. Called after the stores have handled
   * the event.
   */
  async handle(event: HostEvent): Promise<void> {
    const texts = this.texts(event);
    if (!this.parts.wanted()) return;
    for (const [title, body] of texts) await this.parts.host.notify(title, body);
  }

  private texts(event: HostEvent): [string, string][] {
    if (event.type === "messageChanged") return this.answered(event.message);
    if (event.type === "downloadsChanged") return this.downloaded(event.downloads);
    if (event.type === "runEnded") return this.trained(event.run);
    return [];
  }

  private answered(message: Message): [string, string][] {
    if (isActive(message)) {
      if (!this.startedAt.has(message.id)) this.startedAt.set(message.id, this.now());
      return [];
    }
    const began = this.startedAt.get(message.id);
    this.startedAt.delete(message.id);
    const { type } = message.state;
    if (began === undefined || type === "stopped" || this.now() - began < LONG_ANSWER) return [];
    const body = this.parts.title(message.conversation) ?? "";
    return [[type === "failed" ? m.notify_answer_failed() : m.notify_answer_done(), body]];
  }

  private downloaded(downloads: readonly Download[]): [string, string][] {
    const ended = downloads.filter(
      ({ id, state }) => this.active.has(id) && (state.type === "done" || state.type === "failed"),
    );
    this.active = new Set(
      downloads.filter(({ state }) => state.type !== "done" && state.type !== "failed").map(({ id }) => id),
    );
    return ended.map(({ name, state }) => [
      state.type === "done" ? m.notify_download_done() : m.notify_download_failed(),
      name,
    ]);
  }

  private trained({ name, state }: Run): [string, string][] {
    const title =
      state.type === "finished"
        ? m.notify_run_done()
        : state.type === "failed"
          ? m.notify_run_failed()
          : m.notify_run_interrupted();
    return [[title, name]];
  }
}
