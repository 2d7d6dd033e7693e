// Owns the list of conversations, newest first.

import { m } from "$messages";
import type { ConversationSummary, DeletedConversation, Host, HostEvent, MessageDeletion } from "../host";
import { dayGroup } from "../text/format";
import { titled } from "../text/title";
import type { Folders } from "./folders.svelte";

export interface Group {
  name: string;
  conversations: ConversationSummary[];
}

export class Conversations {
  /** The list as the app sent it. */
  private listed: readonly ConversationSummary[] = $state.raw([]);
  readonly all: readonly ConversationSummary[] = $derived(this.listed.map(titled));

  /** Groups of the list: pinned conversations, then conversations without a folder, by day. */
  readonly groups: readonly Group[] = $derived(
    grouped(this.all, Date.now(), ({ folder }) => this.folders.get(folder) !== null),
  );
  /** Tags in use, sorted. */
  readonly tags: readonly string[] = $derived(
    [...new Set(this.all.flatMap(({ tags }) => tags))].sort((a, b) => a.localeCompare(b)),
  );
  /** Deleted conversations, once requested. */
  bin: readonly DeletedConversation[] = $state.raw([]);
  /** Deleted messages, once requested. */
  messageBin: readonly MessageDeletion[] = $state.raw([]);

  private readonly removed = new Set<number>();

  constructor(
    private readonly host: Host,
    private readonly folders: Folders,
  ) {}

  fill(conversations: readonly ConversationSummary[]): void {
    this.listed = [...conversations].sort(newestFirst);
  }

  get(id: number | null): ConversationSummary | null {
    return this.all.find((c) => c.id === id) ?? null;
  }

  title(id: number | null): string | null {
    return this.get(id)?.title ?? null;
  }

  /** Conversations of a folder: pinned ones first, then newest first. */
  inFolder(folder: number): readonly ConversationSummary[] {
    const all = this.all.filter((c) => c.folder === folder);
    return [...all.filter((c) => c.pinned), ...all.filter((c) => !c.pinned)];
  }

  // Changes arrive as events, which may be newer than the reply. The event has the title that the
  // app derived from the name.

  /** Moves a conversation into a folder, or out of its folder. */
  async move(id: number, folder: number | null): Promise<void> {
    await this.host.moveConversation(id, folder);
  }

  async setTags(id: number, tags: readonly string[]): Promise<void> {
    await this.host.setTags(id, [...tags]);
  }

  async rename(id: number, title: string): Promise<void> {
    const clean = title.trim();
    if (clean !== "" && clean !== this.title(id)) await this.host.renameConversation(id, clean);
  }

  async remove(id: number): Promise<void> {
    await this.host.deleteConversation(id);
    this.listed = this.listed.filter((c) => c.id !== id);
  }

  async pin(id: number, pinned: boolean): Promise<void> {
    await this.host.pinConversation(id, pinned);
  }

  async openBin(): Promise<void> {
    const [conversations, messages] = await Promise.all([
      this.host.deletedConversations(),
      this.host.messageDeletions(),
    ]);
    this.bin = conversations.map(titled);
    this.messageBin = messages.map(titled);
  }

  async restore(id: number): Promise<void> {
    await this.host.restoreConversation(id);
    await this.openBin();
  }

  /** Removes for good what the bin shows. */
  async emptyBin(): Promise<void> {
    await this.host.purgeConversations(this.bin.map(({ id }) => id));
    await this.host.purgeMessages(this.messageBin.map(({ id }) => id));
    await this.openBin();
  }

  /** Adds the conversation that a command returned. Its events may have arrived before. */
  add(conversation: ConversationSummary): void {
    if (!this.get(conversation.id) && !this.removed.has(conversation.id)) this.put(conversation);
  }

  private put(conversation: ConversationSummary): void {
    this.fill([conversation, ...this.listed.filter((c) => c.id !== conversation.id)]);
  }

  handle(event: HostEvent): void {
    if (event.type === "conversationRemoved") this.removed.add(event.id);
    if (event.type === "conversationChanged") this.put(event.conversation);
    else if (event.type === "conversationsChanged") this.fill(event.conversations);
    else if (event.type === "conversationRemoved") this.listed = this.listed.filter((c) => c.id !== event.id);
  }
}

function newestFirst(a: ConversationSummary, b: ConversationSummary): number {
  return b.updatedAt - a.updatedAt || b.id - a.id;
}

/**
 * Groups pinned conversations, then the others by day, without those in folders; preserves the
 * order.
 */
export function grouped(
  conversations: readonly ConversationSummary[],
  now: number,
  isFiled: (conversation: ConversationSummary) => boolean = () => false,
): Group[] {
  const pinned = conversations.filter((c) => c.pinned);
  const groups: Group[] = pinned.length > 0 ? [{ name: m.store_pinned(), conversations: pinned }] : [];
  for (const conversation of conversations) {
    if (conversation.pinned || isFiled(conversation)) continue;
    const name = dayGroup(conversation.updatedAt, now);
    const last = groups.at(-1);
    if (last?.name === name) last.conversations.push(conversation);
    else groups.push({ name, conversations: [conversation] });
  }
  return groups;
}
