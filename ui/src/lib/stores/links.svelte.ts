// Owns the opened links until each is confirmed or dismissed. A confirmed link to a model only
// opens its page or its check.

import { m } from "$messages";
import type { Host, HostEvent, Link } from "../host";
import { refusalText } from "../text/link";
import type { Conversations } from "./conversations.svelte";
import type { ModelsPage } from "./modelsPage.svelte";
import type { HubStore } from "./hub.svelte";
import type { Toasts } from "./toasts.svelte";

/** The parts of the app that links act on. */
interface Parts {
  readonly host: Host;
  readonly conversations: Conversations;
  readonly modelsPage: ModelsPage;
  readonly hub: HubStore;
  readonly toasts: Toasts;
  open(conversation: number): Promise<void>;
  try(action: () => Promise<unknown>): Promise<boolean>;
}

/** A link that the user can agree to. */
export type Question = Exclude<Link, { type: "refused" }>;

/** Maximum number of links waiting for a decision: a web page may open any number. */
const MAX_WAITING = 5;

export class Links {
  /** Links waiting for a decision, oldest first. */
  waiting: readonly Question[] = $state.raw([]);
  private started = false;

  constructor(private readonly app: Parts) {}

  /**
   * Asks about the links that were opened before the page loaded; call it once the conversations
   * are known.
   */
  async start(): Promise<void> {
    this.started = true;
    await this.take();
  }

  handle(event: HostEvent): void {
    if (event.type === "linksOpened" && this.started) void this.app.try(() => this.take());
  }

  /** Drops the first link. */
  dismiss(): void {
    this.waiting = this.waiting.slice(1);
  }

  /** Follows the first link. */
  agree(): void {
    const [link] = this.waiting;
    if (!link) return;
    this.dismiss();
    if (link.type === "conversation") void this.app.try(() => this.app.open(link.id));
    else this.lookUp(link);
  }

  private async take(): Promise<void> {
    for (const link of await this.app.host.takeLinks()) this.add(link);
  }

  private add(link: Link): void {
    const { toasts, conversations } = this.app;
    if (link.type === "refused") return toasts.show({ kind: "problem", text: refusalText(link.reason) });
    if (link.type === "conversation" && conversations.get(link.id) === null)
      return toasts.show({ kind: "problem", text: m.shell_link_no_conversation() });
    const isWaiting = this.waiting.some((other) => JSON.stringify(other) === JSON.stringify(link));
    if (!isWaiting && this.waiting.length < MAX_WAITING) this.waiting = [...this.waiting, link];
  }

  /** Shows a repository of the hub, or the facts from the header of a file. */
  private lookUp({ source, place }: Extract<Link, { type: "model" }>): void {
    const { hub, modelsPage } = this.app;
    modelsPage.open("discover");
    if (place.type === "hub" && place.revision === null && place.quantization === null && place.file === null) {
      void hub.show(`${place.owner}/${place.name}`);
      return;
    }
    hub.close();
    hub.type(source);
    void hub.inspect(source);
  }
}
