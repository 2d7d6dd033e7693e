// Actions on conversations and answers.

import { isActive, type Message } from "../host";
import type { App } from "../stores/app.svelte";
import { textOf } from "../text/parts";
import type { Action } from "./action";

/** The last answer, if it is complete and the only one to its message. */
function lastAnswer(app: App): Message | null {
  const message = app.thread.last?.message;
  return message && message.role === "assistant" && !isActive(message) ? message : null;
}

/** Opens the conversation some places below in the list, or the first one. */
function step(app: App, by: number): unknown {
  const all = app.conversations.all;
  const at = all.findIndex(({ id }) => id === app.thread.id);
  const next = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
  return next && app.open(next.id);
}

export const chatActions: readonly Action[] = [
  { id: "new-conversation", title: "New conversation", group: "Chat", icon: "compose", keys: ["Mod+N"], words: "chat start", run: (app) => app.newConversation() },
  { id: "search", title: "Search conversations", group: "Chat", icon: "search", keys: ["Mod+Shift+F"], words: "find messages text", run: (app) => app.focusSearch() },
  { id: "find", title: "Find in this conversation", group: "Chat", icon: "search", keys: ["Mod+F"], keyView: "chat", words: "text message search", enabled: (app) => app.thread.id !== null, run: (app) => app.findInConversation() },
  {
    id: "chat-settings",
    title: "Conversation settings",
    group: "Chat",
    icon: "sliders",
    words: "sampling temperature system prompt preset panel",
    run: (app) => {
      app.view = "chat";
      app.chatSettings = true;
    },
  },
  { id: "write", title: "Write a message", group: "Chat", icon: "pen", keys: ["Mod+L"], words: "composer focus input prompt", run: (app) => app.focusComposer() },
  { id: "stop", title: "Stop the answer", group: "Chat", icon: "stop", keys: ["Escape"], keyView: "chat", words: "cancel abort generating", enabled: (app) => app.thread.busy, run: (app) => app.thread.stop() },
  {
    id: "regenerate",
    title: "Regenerate the last answer",
    group: "Chat",
    icon: "again",
    keys: ["Mod+Shift+R"],
    words: "again retry",
    enabled: (app) => !app.thread.busy && lastAnswer(app)?.comparison === null,
    run: async (app) => {
      const message = lastAnswer(app);
      app.view = "chat";
      if (message) await app.thread.regenerate(message.id);
    },
  },
  {
    id: "copy-answer",
    title: "Copy the last answer",
    group: "Chat",
    icon: "copy",
    keys: ["Mod+Shift+C"],
    words: "clipboard",
    enabled: (app) => textOf(lastAnswer(app)?.parts ?? []) !== "",
    run: async (app) => {
      await navigator.clipboard.writeText(textOf(lastAnswer(app)?.parts ?? []));
      app.toasts.show({ kind: "note", text: "The answer was copied." });
    },
  },
  { id: "previous-conversation", title: "Previous conversation", group: "Chat", icon: "left", keys: ["Alt+Shift+ArrowUp"], appleKeys: ["Mod+Alt+ArrowUp"], words: "newer up", enabled: (app) => app.conversations.all.length > 0, run: (app) => step(app, -1) },
  { id: "next-conversation", title: "Next conversation", group: "Chat", icon: "right", keys: ["Alt+Shift+ArrowDown"], appleKeys: ["Mod+Alt+ArrowDown"], words: "older down", enabled: (app) => app.conversations.all.length > 0, run: (app) => step(app, 1) },
  {
    id: "delete-conversation",
    title: "Delete this conversation",
    group: "Chat",
    icon: "trash",
    words: "remove bin",
    enabled: (app) => app.thread.id !== null,
    run: (app) => app.thread.id !== null && app.remove(app.thread.id),
  },
];
