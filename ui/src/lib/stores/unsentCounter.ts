// Counts the tokens of the draft in the worker. Only the change since the last count is sent.

import type { Host, NewConversation, TextFile, UnsentCount, UnsentTokens } from "../host";
import { changeOf } from "../text/change";

/** Characters of a draft with its files above which it is not counted. The worker has a limit too. */
const MAX_CHARACTERS = 4 << 20;

/** A message that is being written, and its place. */
export interface Draft {
  conversation: number | null;
  leaf: number | null;
  text: string;
  files: readonly TextFile[];
  fresh: NewConversation;
}

type Counted = Pick<Draft, "text" | "files"> & { revision: number };

interface Waiting {
  draft: Draft;
  reply: (tokens: UnsentTokens | null) => void;
}

export class UnsentCounter {
  /** The draft that was sent last. */
  private last: Counted | null = null;
  /** Begins at random, since the worker may know a text of an earlier page. */
  private revision = crypto.getRandomValues(new Uint32Array(1))[0]! >>> 1;
  private isCounting = false;
  /** The newest draft, while an older one is being counted. */
  private waiting: Waiting | null = null;

  constructor(private readonly host: () => Pick<Host, "countUnsent">) {}

  /**
   * Counts a draft, one at a time; `null` if that is not possible, or if a newer one takes its
   * place.
   */
  count(draft: Draft): Promise<UnsentTokens | null> {
    this.waiting?.reply(null);
    const counted = new Promise<UnsentTokens | null>((reply) => (this.waiting = { draft, reply }));
    if (!this.isCounting) void this.countWaiting();
    return counted;
  }

  private async countWaiting(): Promise<void> {
    this.isCounting = true;
    while (this.waiting) {
      const { draft, reply } = this.waiting;
      this.waiting = null;
      reply(await this.countOne(draft));
    }
    this.isCounting = false;
  }

  private async countOne(draft: Draft): Promise<UnsentTokens | null> {
    const length = draft.files.reduce((sum, { text }) => sum + text.length, draft.text.length);
    if (length > MAX_CHARACTERS) return null;
    try {
      let outcome = await this.send(draft, this.last);
      // The worker has another text: it was restarted, or another model answers now.
      if (outcome.type === "unknown") {
        this.last = null;
        if (this.waiting) return null;
        outcome = await this.send(draft, null);
      }
      return outcome.type === "counted" ? outcome.tokens : null;
    } catch {
      this.last = null;
      return null;
    }
  }

  /** Sends a draft as a change of another. */
  private send(draft: Draft, base: Counted | null): Promise<UnsentCount> {
    const { text, files, ...place } = draft;
    const revision = ++this.revision;
    this.last = { text, files, revision };
    return this.host().countUnsent({
      ...place,
      text: { base: base?.revision ?? null, revision, ...changeOf(base?.text ?? "", text) },
      files: base?.files === files ? null : [...files],
    });
  }
}
