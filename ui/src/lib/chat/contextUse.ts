// The context of the model that answers in the open conversation, and the tokens of it in use.

import type { Message, Part } from "../host";
import type { App } from "../stores/app.svelte";
import type { ContextUse, MessageNode } from "../stores/thread.svelte";
import { estimateTokens } from "../text/tokens";

export interface KnownUse extends ContextUse {
  /** Whether the tokens were counted, not estimated. */
  exact: boolean;
}

/** `null` means that the context is unknown. */
export function contextUse({ chatModel, chatState, thread }: App): KnownUse | null {
  const { context: known, path } = thread;
  const last = path.findLast(({ message }) => message.stats !== null)?.message ?? null;
  // Another model has another context, and other tokens.
  const isOther = last !== null && last.model !== null && last.model !== chatModel?.name;
  const isReady = chatState.type === "ready";
  if (!isReady && isOther) return null;
  const total = isReady ? chatState.info.context : known?.total || last?.stats?.context;
  if (!total) return null;
  return known ? { used: known.used, total, exact: !isOther } : { ...estimated(path, last), total };
}

/** The tokens of a branch: those after the answer whose tokens are known last are estimated. */
function estimated(path: readonly MessageNode[], known: Message | null): Omit<KnownUse, "total"> {
  const first = path.findIndex(({ message }) => message === known) + 1;
  const used = path.slice(first).reduce((sum, { message }) => sum + tokensOf(message.parts), 0);
  return { used: used + (known?.stats?.contextUsed ?? 0), exact: path.length === 0 };
}

const ofParts = new WeakMap<readonly Part[], number>();

function tokensOf(parts: readonly Part[]): number {
  const tokens =
    ofParts.get(parts) ?? parts.reduce((sum, part) => sum + ("text" in part ? estimateTokens(part.text) : 0), 0);
  ofParts.set(parts, tokens);
  return tokens;
}
