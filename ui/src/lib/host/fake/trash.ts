// Deleted messages of the fake host.

import type { Conversation, Message, MessageDeletion } from "../host";
import { textOf } from "../../text/parts";

interface Deleted {
  home: number;
  messages: Message[];
  /** The end of the selected branch, if it was among them. */
  leaf: number | null;
  /** The answers that its first message was compared with. */
  compared: Message[];
}

/** A message and all messages below it, parents first. */
export function subtree(messages: readonly Message[], id: number): Message[] {
  const ids = new Set([id]);
  return messages.filter((message) => {
    if (message.parent !== null && ids.has(message.parent)) ids.add(message.id);
    return ids.has(message.id);
  });
}

export class FakeTrash {
  /** By the id of the message that the user deleted. */
  private readonly deletions = new Map<number, Deleted>();

  has(message: number): boolean {
    return [...this.deletions.values()].some(({ messages }) => messages.some(({ id }) => id === message));
  }

  homeOf(deletion: number): number | null {
    return this.deletions.get(deletion)?.home ?? null;
  }

  /** The deletions in some conversations, last deleted first. */
  list(homes: readonly Conversation[]): MessageDeletion[] {
    const listed = [...this.deletions].flatMap(([id, { home, messages }]) => {
      const { title } = homes.find((conversation) => conversation.id === home) ?? {};
      if (title === undefined) return [];
      const firstWords = textOf(messages[0]?.parts ?? [])
        .trim()
        .slice(0, 80);
      return { id, conversation: home, title, firstWords, count: messages.length, daysLeft: 30 };
    });
    return listed.reverse();
  }

  /** Whether the message that a deleted one follows is deleted, too. */
  isParentMissing(home: Conversation, deletion: number): boolean {
    const parent = this.deletions.get(deletion)?.messages[0]?.parent ?? null;
    return parent !== null && !home.messages.some(({ id }) => id === parent);
  }

  /** Returns the number of deleted messages. */
  delete(home: Conversation, id: number): number {
    const messages = subtree(home.messages, id);
    const [root] = messages;
    if (!root) return 0;
    const isDeleted = ({ id }: { id: number | null }) => messages.some((message) => message.id === id);
    const compared =
      root.comparison === null
        ? []
        : home.messages.filter((other) => other.parent === root.parent && other.comparison !== null && other !== root);
    const leaf = isDeleted({ id: home.leaf }) ? home.leaf : null;
    this.deletions.set(id, { home: home.id, messages, leaf, compared });
    home.messages = home.messages.filter((message) => !isDeleted(message));
    link(compared);
    if (leaf !== null) {
      const versions = home.messages.filter((message) => message.parent === root.parent);
      const version = versions.findLast((other) => other.id < id) ?? versions[0];
      home.leaf = version ? newestLeaf(home.messages, version.id) : root.parent;
    }
    return messages.length;
  }

  purge(deletion: number): void {
    this.deletions.delete(deletion);
  }

  restore(home: Conversation, deletion: number): void {
    const deleted = this.deletions.get(deletion);
    const root = deleted?.messages[0];
    if (!deleted || !root) return;
    this.deletions.delete(deletion);
    home.messages = [...home.messages, ...deleted.messages].sort((a, b) => a.id - b.id);
    if (deleted.compared.length > 0) link([root, ...deleted.compared.filter((other) => home.messages.includes(other))]);
    if (deleted.leaf !== null) home.leaf = deleted.leaf;
  }
}

/** Links the answers of a comparison in a ring. A single answer is not a comparison. */
function link(answers: Message[]): void {
  const ordered = [...answers].sort((a, b) => a.id - b.id);
  for (const [at, answer] of ordered.entries())
    answer.comparison = ordered.length < 2 ? null : (ordered[(at + 1) % ordered.length]?.id ?? null);
}

/** The leaf that is reached from a message by its newest child, the child's newest child and so on. */
export function newestLeaf(messages: readonly Message[], id: number): number {
  let leaf = id;
  for (;;) {
    const child = messages.findLast(({ parent }) => parent === leaf);
    if (!child) return leaf;
    leaf = child.id;
  }
}
