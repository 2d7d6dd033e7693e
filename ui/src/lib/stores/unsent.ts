// Saves unsent text, files and queued messages by conversation, one save at a time. Changes during
// a save are part of the next save. A long text is saved at most once a second.

import { asProblem, type Host, type UnsentChange } from "../host";
import { Turns } from "./turns";

type Change = Partial<UnsentChange>;

/** Characters above which a save waits, so that not every key saves a long text. */
const LONG = 64 << 10;
const LONG_SAVE_MS = 1_000;

export class UnsentSaver {
  private readonly turns = new Turns();
  /** Changes to save next, by conversation; `null` is the new conversation. */
  private next: Map<number | null, Change> | null = null;
  /** Conversations whose unsent state the page has loaded. It is newer than the saved state. */
  private readonly known = new Set<number | null>();
  /** Changes that could not be saved. They are saved with the next change. */
  private readonly unsaved = new Map<number | null, Change>();

  constructor(
    private readonly host: Pick<Host, "saveUnsent">,
    private readonly report: (error: unknown) => void,
  ) {}

  /**
   * Calls `fill` with the saved unsent state of a conversation, unless the page has a newer one.
   */
  learn(conversation: number | null, fill: () => void): void {
    if (this.known.has(conversation)) return;
    this.known.add(conversation);
    fill();
  }

  change(conversation: number | null, change: Change): void {
    this.known.add(conversation);
    const next = this.begin();
    next.set(conversation, { ...next.get(conversation), ...change });
  }

  /** Retries the saves that failed. */
  retry(): void {
    if (this.unsaved.size > 0) this.begin();
  }

  /**
   * Sends a message. Changes made meanwhile, such as the cleared draft, are saved afterwards. If
   * Hearth exits in between, the message is both sent and still in the draft.
   */
  send<T>(task: () => Promise<T>): Promise<T> {
    this.next = null;
    const sent = task();
    void this.turns.run(() => sent.catch(() => {}));
    return sent;
  }

  /** The changes of the next save. */
  private begin(): Map<number | null, Change> {
    if (this.next) return this.next;
    const changes = new Map<number | null, Change>();
    this.next = changes;
    void this.turns.run(() => this.save(changes));
    return changes;
  }

  private async save(changes: Map<number | null, Change>): Promise<void> {
    const isLong = [...changes.values()].some(({ text }) => (text?.length ?? 0) > LONG);
    if (isLong) await new Promise((resolve) => setTimeout(resolve, LONG_SAVE_MS));
    if (this.next === changes) this.next = null;
    const isNews = this.unsaved.size === 0;
    for (const conversation of new Set([...this.unsaved.keys(), ...changes.keys()])) {
      const change = { ...this.unsaved.get(conversation), ...changes.get(conversation) };
      try {
        await this.host.saveUnsent(conversation, { text: null, files: null, queue: null, ...change });
        this.unsaved.delete(conversation);
      } catch (error) {
        // A conversation that was deleted permanently has no unsent state.
        if (asProblem(error).code === "notFound") this.unsaved.delete(conversation);
        else {
          this.unsaved.set(conversation, change);
          if (isNews) this.report(error);
        }
      }
    }
  }
}
