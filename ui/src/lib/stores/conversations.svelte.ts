// Owns the list of conversations, newest first.

import { m } from "$messages";
import type { ConversationSummary, DeletedConversation, Host, HostEvent } from "../host";
import { dayGroup } from "../text/format";

export interface Group {
  name: string;
  conversations: ConversationSummary[];
}

export class Conversations {
  all: readonly ConversationSummary[] = $state.raw([]);

  /** The pinned ones, then the others by day. */
  readonly groups: readonly Group[] = $derived(grouped(this.all, Date.now()));
  /** The deleted ones, once they were asked for. */
  bin: readonly DeletedConversation[] = $state.raw([]);

  constructor(private readonly host: Host) {}

  fill(conversations: readonly ConversationSummary[]): void {
    this.all = [...conversations].sort(newestFirst);
  }

  title(id: number | null): string | null {
    return this.all.find((c) => c.id === id)?.title ?? null;
  }

  async rename(id: number, title: string): Promise<void> {
    const clean = title.trim();
    if (clean === "" || clean === this.title(id)) return;
    await this.host.renameConversation(id, clean);
    this.all = this.all.map((c) => (c.id === id ? { ...c, title: clean } : c));
  }

  async remove(id: number): Promise<void> {
    await this.host.deleteConversation(id);
    this.all = this.all.filter((c) => c.id !== id);
  }

  async pin(id: number, pinned: boolean): Promise<void> {
    await this.host.pinConversation(id, pinned);
    this.all = this.all.map((c) => (c.id === id ? { ...c, pinned } : c));
  }

  async openBin(): Promise<void> {
    this.bin = await this.host.deletedConversations();
  }

  async restore(id: number): Promise<void> {
    await this.host.restoreConversation(id);
    await this.openBin();
  }

  /** Deletes for good. */
  async purge(ids: number[]): Promise<void> {
    await this.host.purgeConversations(ids);
    await this.openBin();
  }

  put(conversation: ConversationSummary): void {
    this.fill([conversation, ...this.all.filter((c) => c.id !== conversation.id)]);
  }

  handle(event: HostEvent): void {
    if (event.type === "conversationChanged") this.put(event.conversation);
    else if (event.type === "conversationsChanged") this.fill(event.conversations);
    else if (event.type === "conversationRemoved") this.all = this.all.filter((c) => c.id !== event.id);
  }
}

function newestFirst(a: ConversationSummary, b: ConversationSummary): number {
  return b.updatedAt - a.updatedAt || b.id - a.id;
}

/** Groups the pinned ones, then neighbours of the same day; preserves the order. */
export function grouped(conversations: readonly ConversationSummary[], now: number): Group[] {
  const pinned = conversations.filter((c) => c.pinned);
  const groups: Group[] = pinned.length > 0 ? [{ name: m.store_pinned(), conversations: pinned }] : [];
  for (const conversation of conversations) {
    if (conversation.pinned) continue;
    const name = dayGroup(conversation.updatedAt, now);
    const last = groups.at(-1);
    if (last?.name === name) last.conversations.push(conversation);
    else groups.push({ name, conversations: [conversation] });
  }
  return groups;
}
