// Titles of conversations.

import { m } from "$messages";
import { uniqueName } from "./uniqueName";

/** The title to show: a conversation whose first message has no visible character has none. */
export function titleText(title: string): string {
  return title === "" ? m.chat_new_conversation() : title;
}

/** A conversation with the title to show. */
export function titled<T extends { readonly title: string }>(conversation: T): T {
  return conversation.title === "" ? { ...conversation, title: titleText("") } : conversation;
}

/** A title for a branch that no conversation has. A branch of a branch gets no second suffix. */
export function branchTitle(title: string, taken: readonly string[]): string {
  const suffix = m.chat_branch_title({ title: "" }).trim();
  return uniqueName(title.endsWith(suffix) ? title : m.chat_branch_title({ title }), taken);
}
