// Owns nothing but the stores: makes them, hands events round, and does what takes more than one of them.

import { getContext, setContext } from "svelte";
import { asProblem, type Host, type HostEvent, type Problem } from "../host";
import { Conversations } from "./conversations.svelte";
import { Drafts, type Shelf } from "./drafts.svelte";
import type { Schedule } from "./live.svelte";
import { Models } from "./models.svelte";
import { Search } from "./search.svelte";
import { SettingsStore } from "./settings.svelte";
import { Thread } from "./thread.svelte";
import { Toasts } from "./toasts.svelte";

export type View = "chat" | "models" | "settings";

export class App {
  view: View = $state("chat");
  ready = $state(false);
  /** Why the window could not be filled. */
  problem: Problem | null = $state.raw(null);

  readonly conversations: Conversations;
  readonly thread: Thread;
  readonly models: Models;
  readonly settings: SettingsStore;
  readonly search: Search;
  readonly drafts: Drafts;
  readonly toasts = new Toasts();

  constructor(
    readonly host: Host,
    parts: { shelf?: Shelf | null; schedule?: Schedule } = {},
  ) {
    this.conversations = new Conversations(host);
    this.thread = new Thread(host, parts.schedule);
    this.models = new Models(host);
    this.settings = new SettingsStore(host);
    this.search = new Search(host);
    this.drafts = new Drafts(parts.shelf ?? null);
  }

  async start(): Promise<void> {
    try {
      // First listen, then look: nothing falls between the two.
      await this.host.onEvent((event) => this.handle(event));
      const snapshot = await this.host.snapshot();
      this.settings.fill(snapshot.settings, snapshot.version);
      this.models.fill(snapshot);
      this.conversations.fill(snapshot.conversations);
    } catch (thrown) {
      this.problem = asProblem(thrown);
    }
    this.ready = true;
  }

  handle(event: HostEvent): void {
    this.conversations.handle(event);
    this.thread.handle(event);
    this.models.handle(event);
  }

  newConversation(): void {
    this.view = "chat";
    this.thread.startNew();
  }

  async open(id: number, message: number | null = null): Promise<void> {
    this.view = "chat";
    if (id === this.thread.id && message === null) return;
    await this.thread.open(id, message);
  }

  /** Sends the draft of the conversation that is open; if that fails the draft comes back. */
  async send(text: string): Promise<void> {
    const from = this.thread.id;
    this.drafts.set(from, "");
    try {
      const sent = await this.thread.send(text);
      this.conversations.put(sent.conversation);
    } catch (thrown) {
      const typed = this.drafts.get(from);
      this.drafts.set(from, typed === "" ? text : `${text}\n${typed}`);
      this.tell(thrown);
    }
  }

  async remove(id: number): Promise<void> {
    const title = this.conversations.title(id) ?? "conversation";
    await this.try(async () => {
      await this.conversations.remove(id);
      if (this.thread.id === id) this.thread.startNew();
      this.toasts.show({
        kind: "note",
        text: `Deleted “${title}”`,
        action: { label: "Undo", run: () => void this.restore(id) },
      });
    });
  }

  async restore(id: number): Promise<void> {
    await this.try(async () => {
      await this.host.restoreConversation(id);
      this.conversations.fill((await this.host.snapshot()).conversations);
      await this.open(id);
    });
  }

  async openLink(address: string): Promise<void> {
    await this.try(() => this.host.openLink(address));
  }

  /** Does something that may fail, and says so when it does. */
  async try(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      return true;
    } catch (thrown) {
      this.tell(thrown);
      return false;
    }
  }

  private tell(thrown: unknown): void {
    this.toasts.show({ kind: "problem", text: asProblem(thrown).message });
  }
}

const KEY = Symbol("app");

export function provideApp(app: App): App {
  return setContext(KEY, app);
}

export function useApp(): App {
  return getContext<App>(KEY);
}
