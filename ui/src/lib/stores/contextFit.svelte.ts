// Owns the size of the draft, and whether it fits into the context with the conversation.

import { m } from "$messages";
import { contextUse } from "../chat/contextUse";
import type { TextFile } from "../host";
import { count, sentences } from "../text/format";
import { noticesText } from "../text/sentence";
import { estimateTokens } from "../text/tokens";
import type { App } from "./app.svelte";
import type { ContextUse } from "./thread.svelte";

/** Tokens that the engine reserves for an answer, at most a quarter of the context. */
const MAX_RESERVED = 256;
/** Tokens for the answer in a larger context. */
const ROOM = 1_024;
const SMALLEST = 1_024;

/** Counts the tokens of a text with its files. */
type CountTokens = (text: string, files: readonly TextFile[]) => number | Promise<number>;

export class ContextFit {
  /** Tokens of the draft with its files, as of the last measurement. */
  draft = $state(0);
  private measurements = 0;

  constructor(
    private readonly app: App,
    private readonly countTokens: CountTokens = estimate,
  ) {}

  /** Context in tokens of the conversation's model; `null` if it is not loaded. */
  readonly loaded: number | null = $derived.by(() => {
    const { chatState } = this.app;
    return chatState.type === "ready" ? chatState.info.context : null;
  });

  /** Tokens of the context in use; `null` if they are not known. */
  readonly use: ContextUse | null = $derived.by(() => {
    const use = contextUse(this.app);
    return use && use.total > 0 ? use : null;
  });

  /** The whole context in tokens; `null` if it is not known. */
  readonly total: number | null = $derived(this.use?.total ?? this.loaded);

  /**
   * What does not fit with the draft: the draft itself, or the oldest messages, which are left out
   * then; `null` if all fits.
   */
  readonly overflow: "draft" | "oldest" | null = $derived.by(() => {
    const { use, total, draft } = this;
    if (total === null || draft === 0) return null;
    if (!fits(draft, total)) return "draft";
    return use === null || fits(use.used + draft, total) ? null : "oldest";
  });

  /** Tokens of the conversation with the draft. */
  readonly needed: number = $derived((this.use?.used ?? 0) + this.draft);

  /** Counts the tokens of a draft. The newest measurement counts. */
  async measure(text: string, files: readonly TextFile[]): Promise<void> {
    const measurement = ++this.measurements;
    const tokens = text === "" && files.length === 0 ? 0 : await this.countTokens(text, files);
    if (measurement === this.measurements) this.draft = tokens;
  }

  /** Whether a prompt fits into the loaded context, as far as is known. */
  canFit(prompt: number): boolean {
    return this.loaded === null || fits(prompt, this.loaded);
  }

  /**
   * A context in tokens into which a prompt fits, and for which the conversation's model was
   * trained; `null` if there is none or the model has it already.
   */
  larger(prompt: number): number | null {
    const { chatModel, settings } = this.app;
    let context = SMALLEST;
    while (context < prompt + ROOM) context *= 2;
    context = Math.min(context, chatModel?.contextTrained ?? 0);
    const present = this.loaded ?? settings.value.context ?? 0;
    return context > present && fits(prompt, context) ? context : null;
  }

  /** Loads the conversation's model with a larger context, if there is memory for it. */
  async enlarge(prompt: number): Promise<void> {
    const { app } = this;
    const model = app.chatModel;
    const wanted = this.larger(prompt);
    if (!model || wanted === null) return;
    await app.try(async () => {
      const { verdict, notices } = await app.planning.fit(model.id, { context: wanted });
      const context = verdict.type === "fitsWithLessContext" ? verdict.context : wanted;
      if (verdict.type === "wontFit" || !fits(prompt, context)) {
        const texts = [m.chat_larger_context_no_memory({ count: count(wanted) }), noticesText(notices)];
        const text = sentences(texts.filter((text) => text !== ""));
        return app.toasts.show({ kind: "problem", text });
      }
      // The change loads a loaded model again.
      const isLoaded = this.loaded !== null;
      await app.settings.change({ context });
      if (!isLoaded && app.models.current?.id === model.id) await app.models.load(model.id);
    });
  }
}

/** Whether a prompt fits into a context, in tokens. */
function fits(prompt: number, context: number): boolean {
  return prompt <= context - Math.max(1, Math.min(MAX_RESERVED, Math.floor(context / 4)));
}

const ofFile = new WeakMap<TextFile, number>();

function estimate(text: string, files: readonly TextFile[]): number {
  return files.reduce((sum, file) => {
    const tokens = ofFile.get(file) ?? estimateTokens(file.name) + estimateTokens(file.text);
    ofFile.set(file, tokens);
    return sum + tokens;
  }, estimateTokens(text));
}
