// Saves what is written and not sent, by conversation, one save at a time. What changes during a save is in the next one.

import { asProblem, type Host, type UnsentChange } from "../host";
import { Turns } from "./turns";

type Change = Partial<UnsentChange>;

export class UnsentSaver {
  private readonly turns = new Turns();
  /** Changes of the next save, by conversation, until it begins; `null` is the new conversation. */
  private next: Map<number | null, Change> | null = null;
  /** Conversations whose unsent text the page has: it is newer than what the app has saved. */
  private readonly known = new Set<number | null>();
  /** Changes that could not be saved. They are saved with the next change. */
  private readonly unsaved = new Map<number | null, Change>();

  constructor(
    private readonly host: Pick<Host, "saveUnsent">,
    private readonly report: (thrown: unknown) => void,
  ) {}

  /** Calls `fill` with what the app has saved of a conversation, unless the page has something newer. */
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

  /** Saves again what could not be saved. */
  retry(): void {
    if (this.unsaved.size > 0) this.begin();
  }

  /** Sends a message. What changes meanwhile, such as its draft, is saved after it. If Hearth ends in between, the message is there twice. */
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
    if (this.next === changes) this.next = null;
    const isNews = this.unsaved.size === 0;
    for (const conversation of new Set([...this.unsaved.keys(), ...changes.keys()])) {
      const change = { ...this.unsaved.get(conversation), ...changes.get(conversation) };
      try {
        await this.host.saveUnsent(conversation, { text: null, files: null, queue: null, ...change });
        this.unsaved.delete(conversation);
      } catch (thrown) {
        // A conversation that is gone for good has nothing to send.
        if (asProblem(thrown).code === "notFound") this.unsaved.delete(conversation);
        else {
          this.unsaved.set(conversation, change);
          if (isNews) this.report(thrown);
        }
      }
    }
  }
}
