// Titles of conversations.

import { m } from "$messages";

/** The title to show: a conversation whose first message has no visible character has none. */
export function titleText(title: string): string {
  return title === "" ? m.chat_new_conversation() : title;
}

/** A conversation with the title to show. */
export function titled<T extends { readonly title: string }>(conversation: T): T {
  return conversation.title === "" ? { ...conversation, title: titleText("") } : conversation;
}
