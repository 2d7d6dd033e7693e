// Actions on conversations and answers.

import { m } from "$messages";
import { isActive, type Message } from "../host";
import type { App } from "../stores/app.svelte";
import { textOf } from "../text/parts";
import type { Row } from "./action";

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

export const chatActions: readonly Row[] = [
  {
    id: "new-conversation",
    title: m.action_new_conversation,
    group: "chat",
    icon: "compose",
    keys: ["Mod+N"],
    words: m.action_new_conversation_words,
    run: (app) => app.newConversation(),
  },
  {
    id: "search",
    title: m.action_search,
    group: "chat",
    icon: "search",
    keys: ["Mod+Shift+F"],
    words: m.action_search_words,
    run: (app) => app.focusSearch(),
  },
  {
    id: "find",
    title: m.action_find,
    group: "chat",
    icon: "search",
    keys: ["Mod+F"],
    keyView: "chat",
    words: m.action_find_words,
    enabled: (app) => app.thread.id !== null,
    run: (app) => app.findInConversation(),
  },
  {
    id: "chat-settings",
    title: m.action_chat_settings,
    group: "chat",
    icon: "sliders",
    words: m.action_chat_settings_words,
    run: (app) => {
      app.view = "chat";
      app.chatSettings = true;
    },
  },
  {
    id: "write",
    title: m.action_write,
    group: "chat",
    icon: "pen",
    keys: ["Mod+L"],
    words: m.action_write_words,
    run: (app) => app.focusComposer(),
  },
  {
    id: "stop",
    title: m.action_stop,
    group: "chat",
    icon: "stop",
    keys: ["Escape"], // not text: the name of a key
    keyView: "chat",
    words: m.action_stop_words,
    enabled: (app) => app.thread.busy,
    run: (app) => app.thread.stop(),
  },
  {
    id: "regenerate",
    title: m.action_regenerate,
    group: "chat",
    icon: "again",
    keys: ["Mod+Shift+R"],
    words: m.action_regenerate_words,
    enabled: (app) => !app.thread.busy && lastAnswer(app)?.comparison === null,
    run: async (app) => {
      const message = lastAnswer(app);
      app.view = "chat";
      if (message) await app.thread.regenerate(message.id);
    },
  },
  {
    id: "copy-answer",
    title: m.action_copy_answer,
    group: "chat",
    icon: "copy",
    keys: ["Mod+Shift+C"],
    words: m.action_copy_answer_words,
    enabled: (app) => textOf(lastAnswer(app)?.parts ?? []) !== "",
    run: async (app) => {
      await navigator.clipboard.writeText(textOf(lastAnswer(app)?.parts ?? []));
      app.toasts.show({ kind: "note", text: m.action_answer_copied() });
    },
  },
  {
    id: "previous-conversation",
    title: m.action_previous_conversation,
    group: "chat",
    icon: "left",
    keys: ["Alt+Shift+ArrowUp"],
    appleKeys: ["Mod+Alt+ArrowUp"],
    words: m.action_previous_conversation_words,
    enabled: (app) => app.conversations.all.length > 0,
    run: (app) => step(app, -1),
  },
  {
    id: "next-conversation",
    title: m.action_next_conversation,
    group: "chat",
    icon: "right",
    keys: ["Alt+Shift+ArrowDown"],
    appleKeys: ["Mod+Alt+ArrowDown"],
    words: m.action_next_conversation_words,
    enabled: (app) => app.conversations.all.length > 0,
    run: (app) => step(app, 1),
  },
  {
    id: "delete-conversation",
    title: m.action_delete_conversation,
    group: "chat",
    icon: "trash",
    words: m.action_delete_conversation_words,
    enabled: (app) => app.thread.id !== null,
    run: (app) => app.thread.id !== null && app.remove(app.thread.id),
  },
];
