// Owns a search of what is shown of the open conversation: its query, how often each message
// matches, and the current match.

import type { Message, Part } from "../host";
import { fold, occurrences } from "../text/fold";
import { shownText, textOf } from "../text/parts";
import { foundInTyped, foundText } from "../text/plain";
import { searched } from "./searched.svelte";

/** Milliseconds of a frame that a search takes. */
const BUDGET_MS = 6;
/** Messages that are read in any case, so that a search ends on a busy machine too. */
const MIN_ROWS = 5;
/** Matches of one message that are counted. */
const MAX_PER_MESSAGE = 1000;

/** The matches of a message. */
export interface Hits {
  row: number;
  message: number;
  count: number;
}

export interface Match {
  row: number;
  message: number;
  /** Among the matches of the message. */
  index: number;
}

interface Texts {
  parts: readonly Part[];
  /** Characters of each text that are shown. */
  maxLength: number;
  /** The source, folded. */
  source: string;
  /** The shown text, folded; `null` until needed. */
  shown: string | null;
}

type NextFrame = (callback: () => void) => void;

export class Find {
  query = $state("");
  /** In the order of the thread, as far as the search has come. */
  hits: readonly Hits[] = $state.raw([]);
  /** Whether the search is still under way. */
  searching = $state(false);
  current: Match | null = $state.raw(null);
  /** Whether there are messages of which only the beginning is shown. */
  partial = $state(false);

  readonly total: number = $derived(this.hits.reduce((sum, { count }) => sum + count, 0));
  /** The number of the current match, from 1; 0: none. */
  readonly number: number = $derived.by(() => {
    const at = this.current;
    return at ? this.hits.reduce((sum, hit) => (hit.row < at.row ? sum + hit.count : sum), 0) + at.index + 1 : 0;
  });

  private readonly texts = new Map<number, Texts>();
  private search = 0;

  constructor(private readonly nextFrame: NextFrame = (callback) => requestAnimationFrame(callback)) {}

  /**
   * Searches the messages; the first match at or after a row becomes the current one, unless one is
   * there already. `mostOf`: how many characters of each text of a message are shown.
   */
  run(messages: readonly Message[], from: number, mostOf: (message: number) => number = () => Infinity): void {
    const search = ++this.search;
    const query = fold(this.query.trim()).text;
    this.partial = messages.some(
      (message) => shownText(message, mostOf(message.id)).length < textOf(message.parts).length,
    );
    searched.query = query;
    if (query === "") {
      this.hits = [];
      this.current = null;
      this.searching = false;
      return;
    }
    const words = query.match(/[\p{L}\p{N}]+/gu) ?? [];
    const results: Hits[] = [];
    let row = 0;
    this.searching = true;

    const slice = () => {
      if (search !== this.search) return;
      const start = performance.now();
      const end = row + MIN_ROWS;
      for (; row < messages.length && (row < end || performance.now() - start < BUDGET_MS); row++) {
        const message = messages[row];
        const count = message ? this.countIn(message, mostOf(message.id), query, words) : 0;
        if (message && count > 0) results.push({ row, message: message.id, count });
      }
      this.searching = row < messages.length;
      this.hits = [...results];
      this.choose(from, !this.searching);
      if (this.searching) this.nextFrame(slice);
    };
    slice();
  }

  /** The next match, or the previous one; after the last comes the first. */
  step(by: 1 | -1): void {
    const { hits, current } = this;
    const at = hits.findIndex(({ row }) => row === current?.row);
    const currentHit = hits[at];
    if (!current || !currentHit) return;
    const index = current.index + by;
    if (index >= 0 && index < currentHit.count) this.current = { ...current, index };
    else {
      const hit = hits[(at + by + hits.length) % hits.length] ?? currentHit;
      this.current = { row: hit.row, message: hit.message, index: by === 1 ? 0 : hit.count - 1 };
    }
  }

  /** Ends the search. */
  stop(): void {
    this.search++;
    this.texts.clear();
    searched.query = "";
    this.hits = [];
    this.current = null;
    this.searching = false;
  }

  private choose(from: number, complete: boolean): void {
    const { current, hits } = this;
    const same = current && hits.find(({ message }) => message === current.message);
    if (current && same) {
      const index = Math.min(current.index, same.count - 1);
      if (index !== current.index || same.row !== current.row)
        this.current = { row: same.row, message: same.message, index };
      return;
    }
    const hit = hits.find(({ row }) => row >= from) ?? (complete ? hits[0] : undefined);
    this.current = hit ? { row: hit.row, message: hit.message, index: 0 } : null;
  }

  private countIn(message: Message, maxLength: number, query: string, words: readonly string[]): number {
    const texts = this.textsOf(message, maxLength);
    // Every word that is shown is in the source, which needs no parsing.
    if (!words.every((word) => texts.source.includes(word))) return 0;
    const found = message.role === "user" ? foundInTyped : foundText;
    texts.shown ??= fold(found(shownText(message, maxLength))).text;
    return occurrences(texts.shown, query, MAX_PER_MESSAGE).length;
  }

  private textsOf(message: Message, maxLength: number): Texts {
    const { id, parts } = message;
    const cached = this.texts.get(id);
    if (cached?.parts === parts && cached.maxLength === maxLength) return cached;
    const texts = { parts, maxLength, source: fold(shownText(message, maxLength)).text, shown: null };
    this.texts.set(id, texts);
    return texts;
  }
}
