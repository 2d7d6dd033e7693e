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

export class UnsentCounter {
  /** The draft that was sent last. */
  private last: Counted | null = null;
  private revision = 0;

  constructor(private readonly host: () => Pick<Host, "countUnsent">) {}

  /** Counts a draft; `null` if that is not possible, or if a newer one is being counted. */
  async count(draft: Draft): Promise<UnsentTokens | null> {
    const length = draft.files.reduce((sum, { text }) => sum + text.length, draft.text.length);
    if (length > MAX_CHARACTERS) return null;
    try {
      let outcome = await this.send(draft, this.last);
      // The worker has another text: it was restarted, or another model answers now.
      if (outcome?.type === "unknown") outcome = await this.send(draft, null);
      return outcome?.type === "counted" ? outcome.tokens : null;
    } catch {
      this.last = null;
      return null;
    }
  }

  /** Sends a draft as a change of another; `null` if a newer one was sent meanwhile. */
  private async send(draft: Draft, base: Counted | null): Promise<UnsentCount | null> {
    const { text, files, ...place } = draft;
    const revision = ++this.revision;
    this.last = { text, files, revision };
    const outcome = await this.host().countUnsent({
      ...place,
      text: { base: base?.revision ?? null, revision, ...changeOf(base?.text ?? "", text) },
      files: base?.files === files ? null : [...files],
    });
    return revision === this.revision ? outcome : null;
  }
}
