// The context of the model that answers in the open conversation, and the tokens of it in use.

import { isActive } from "../host";
import type { App } from "../stores/app.svelte";
import type { ContextUse } from "../stores/thread.svelte";

/** `null` means that it is unknown: of the tokens or of the context. */
export function contextUse({ chatModel, chatState, thread }: App): ContextUse | null {
  const reported = thread.context;
  if (chatState.type !== "ready") {
    const by = thread.path.findLast(({ message }) => message.stats !== null)?.message.model ?? null;
    // Another model has another context.
    return by === null || by === chatModel?.name ? reported : null;
  }
  const total = chatState.info.context;
  if (reported) return { used: reported.used, total };
  // The size of an edited answer is only known once the conversation continues.
  const isUnknown = thread.path.some(({ message }) => message.role === "assistant" && !isActive(message));
  return isUnknown ? null : { used: 0, total };
}
