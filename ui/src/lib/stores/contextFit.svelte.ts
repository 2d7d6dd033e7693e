// Owns the tokens of the draft, and whether it fits into the context with the conversation.

import { m } from "$messages";
import { contextUse, type KnownUse } from "../chat/contextUse";
import type { TextFile } from "../host";
import { count, sentences } from "../text/format";
import { noticesText } from "../text/sentence";
import { estimateTokens } from "../text/tokens";
import type { App } from "./app.svelte";
import { HeldKeys } from "./heldKeys";
import { UnsentCounter } from "./unsentCounter";

/** Tokens that the engine reserves for an answer, at most a quarter of the context. */
const MAX_RESERVED = 256;
/** Tokens for the answer in a larger context. */
const ROOM = 1_024;
/** Smallest context, in tokens, that is offered as a larger one. */
const MIN_CONTEXT = 1_024;

/** Tokens of a draft with its files. */
interface DraftTokens {
  tokens: number;
  /** Whether the worker counted them. Otherwise they are estimated. */
  exact: boolean;
}

const NONE: DraftTokens = { tokens: 0, exact: true };

export class ContextFit {
  private measured: DraftTokens = $state.raw(NONE);
  /** Tokens of the conversation as the worker counted them, and its state then. */
  private counted: { conversation: string; tokens: number } | null = $state.raw(null);
  private measurements = 0;
  /** The conversation whose draft was measured last. */
  private measuredIn: number | null = null;
  /** Keys that are held in the composer. */
  readonly keys = new HeldKeys();

  constructor(
    private readonly app: App,
    private readonly counter: Pick<UnsentCounter, "count"> = new UnsentCounter(() => app.host),
  ) {}

  /** Tokens of the draft with its files, as of the last measurement. */
  readonly draft: number = $derived(this.measured.tokens);

  /** Context in tokens of the conversation's model; `null` if it is not loaded. */
  readonly loaded: number | null = $derived.by(() => {
    const { chatState } = this.app;
    return chatState.type === "ready" ? chatState.info.context : null;
  });

  /** The state on which the conversation's tokens depend: its branch, settings and model. */
  readonly conversation: string = $derived.by(() => {
    const { thread, chatModel } = this.app;
    const { id, folder, systemPrompt, adapters, last } = thread;
    const isNew = id === null ? folder : null;
    const message = last && [last.message.id, last.message.stats?.contextUsed ?? null, thread.busy];
    const settings = [systemPrompt, thread.settings.thinking, adapters, chatModel?.id ?? null, this.loaded];
    return JSON.stringify([id, isNew, message, settings]);
  });

  /** Tokens of the context in use; `null` if the context is not known. */
  readonly use: KnownUse | null = $derived.by(() => {
    const use = contextUse(this.app);
    if (!use || use.total <= 0) return null;
    const { counted } = this;
    const isCounted =
      counted?.conversation === this.conversation && !this.app.thread.busy && (this.draft > 0 || !use.exact);
    return isCounted ? { used: counted.tokens, total: use.total, exact: true } : use;
  });

  /** The whole context in tokens; `null` if it is not known. */
  readonly total: number | null = $derived(this.use?.total ?? this.loaded);

  /** Tokens of the context that are reserved for an answer. */
  readonly reserved: number = $derived(reservedOf(this.total ?? 0));

  /** Whether the tokens of the conversation and the draft were counted, not estimated. */
  readonly exact: boolean = $derived(this.measured.exact && (this.use?.exact ?? true));

  /**
   * The messages that do not fit into the context with the draft: the draft itself, or the oldest
   * ones, which are then left out; `null` if all fit.
   */
  readonly overflow: "draft" | "oldest" | null = $derived.by(() => {
    const { use, total, draft } = this;
    if (total === null || draft === 0) return null;
    if (!fits(draft, total)) return "draft";
    return use === null || fits(use.used + draft, total) ? null : "oldest";
  });

  /** Tokens of the conversation with the draft. */
  readonly needed: number = $derived((this.use?.used ?? 0) + this.draft);

  /** Measures a draft: in the worker, or by an estimate. The newest measurement counts. */
  async measure(text: string, files: readonly TextFile[]): Promise<void> {
    const measurement = ++this.measurements;
    // The composer sends the trimmed text, too.
    const trimmed = text.trim();
    const isEmpty = trimmed === "" && files.length === 0;
    const { conversation, app } = this;
    const { thread } = app;
    if (isEmpty) this.measured = NONE;
    else if (thread.id !== this.measuredIn) this.measured = { tokens: estimate(trimmed, files), exact: false };
    this.measuredIn = thread.id;
    if (isEmpty && (thread.busy || contextUse(app)?.exact !== false)) return;
    const { id, settings, systemPrompt, folder, adapters } = thread;
    const counted =
      this.loaded === null
        ? null
        : await this.counter.count({
            conversation: id,
            leaf: thread.last?.message.id ?? null,
            text: trimmed,
            files,
            fresh: { settings, systemPrompt, folder, adapters: [...adapters] },
          });
    if (measurement !== this.measurements) return;
    if (!counted) {
      if (!isEmpty) this.measured = { tokens: estimate(trimmed, files), exact: false };
      return;
    }
    const tokens = Math.min(counted.conversation, counted.total);
    this.counted = { conversation, tokens };
    if (!isEmpty) this.measured = { tokens: counted.total - tokens, exact: true };
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
    let context = MIN_CONTEXT;
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

/** The tokens of a context that are reserved for an answer. */
function reservedOf(context: number): number {
  return Math.max(1, Math.min(MAX_RESERVED, Math.floor(context / 4)));
}

/** Whether a prompt fits into a context, in tokens. */
function fits(prompt: number, context: number): boolean {
  return prompt <= context - reservedOf(context);
}

const ofFile = new WeakMap<TextFile, number>();

function estimate(text: string, files: readonly TextFile[]): number {
  return files.reduce((sum, file) => {
    const tokens = ofFile.get(file) ?? estimateTokens(file.name) + estimateTokens(file.text);
    ofFile.set(file, tokens);
    return sum + tokens;
  }, estimateTokens(text));
}
