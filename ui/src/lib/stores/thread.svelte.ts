// Owns the open conversation: its tree of messages, the current branch, and sending.

import {
  asProblem,
  defaultChatSettings,
  isActive,
  type AdapterChoice,
  type AnswerOverrides,
  type Compared,
  type ComparedAnswer,
  type Conversation,
  type ConversationSettings,
  type DeletedMessages,
  type Host,
  type Announced,
  type Message,
  type NewConversation,
  type Problem,
  type Sent,
  type TextFile,
  type Thumb,
} from "../host";
import { same } from "../text/same";
import { Live, nextFrame, type Schedule } from "./live.svelte";
import { Reading } from "./reading";
import { Tree } from "./tree";

/** An observable message: only its own component renders again when it changes. */
export class MessageNode {
  message: Message = $state.raw() as Message;

  constructor(message: Message) {
    this.message = message;
  }
}

export interface ContextUse {
  used: number;
  total: number;
}

export class Thread {
  /** Id of the conversation; `null` for a new conversation without messages. */
  id: number | null = $state(null);
  opening = $state(false);
  /** The problem of opening the conversation. */
  problem: Problem | null = $state.raw(null);
  systemPrompt: string | null = $state(null);
  /** Adapters of new answers; for a new conversation, its initial adapters. */
  adapters: readonly AdapterChoice[] = $state.raw([]);
  /** Settings of new answers; for a new conversation, its initial settings. */
  settings: ConversationSettings = $state.raw(defaultChatSettings);
  /** The folder that a new conversation will be created in. */
  folder: number | null = $state(null);
  /** Messages being sent, also in conversations that were left meanwhile. */
  private sendings = $state(0);
  readonly sending: boolean = $derived(this.sendings > 0);
  /** A message to scroll to, after a search. */
  target: number | null = $state(null);
  readonly live: Live;

  private tree = new Tree();
  private nodes = new Map<number, MessageNode>();
  /**
   * For each pending command that starts answers: messages whose events arrived before its reply.
   */
  private readonly early = new Set<Map<number, Message>>();
  /** The conversation being opened. */
  private requestedId: number | null = null;
  /** The last settings and adapters that the app has saved. */
  private saved: { settings: ConversationSettings; adapters: readonly AdapterChoice[] } = {
    settings: defaultChatSettings,
    adapters: [],
  };
  private readonly reading = new Reading((event) => {
    if (event.type === "messageChanged") this.changed(event.message);
  });
  private leaf: number | null = $state(null);
  private version = $state(0);
  private reportedContext: ContextUse | null = $state.raw(null);
  /**
   * The last requested answer, or the first of several compared answers. Each request is a new
   * object.
   */
  requested: { readonly answer: number } | null = $state.raw(null);
  private visit = 0;

  readonly path: readonly MessageNode[] = $derived.by(() => {
    void this.version;
    return this.tree.path(this.leaf).flatMap((id) => this.nodes.get(id) ?? []);
  });

  readonly last: MessageNode | null = $derived(this.path.at(-1) ?? null);

  /** Whether an answer is being generated in this conversation. */
  readonly busy: boolean = $derived.by(() => this.id !== null && this.live.busy.has(this.id));

  /**
   * Tokens of the context in use after the last message; `null` if they were not reported, as after
   * a message of the user.
   */
  readonly context: ContextUse | null = $derived.by(() => {
    const message = this.last?.message;
    if (!message) return null;
    if (isActive(message)) {
      const used = message.state.type === "prefill" ? message.state.total : this.live.contextUsed(message.id);
      const total = this.path.findLast((node) => node.message.stats !== null)?.message.stats?.context ?? 0;
      return used === null ? null : { used, total };
    }
    const { stats } = message;
    return this.reportedContext ?? (stats && { used: stats.contextUsed, total: stats.context });
  });

  constructor(
    private readonly host: Host,
    schedule: Schedule = nextFrame,
    private readonly opened: (conversation: Conversation) => void = () => {},
  ) {
    this.live = new Live((id, stream) => {
      const node = this.nodes.get(id);
      if (node) node.message = { ...node.message, parts: stream.parts, state: { type: "streaming" } };
    }, schedule);
  }

  /** Opens a conversation; a message selects its branch and is scrolled to. */
  async open(id: number, message: number | null = null): Promise<void> {
    const visit = ++this.visit;
    this.opening = true;
    this.requestedId = id;
    this.problem = null;
    try {
      await this.reading.read(
        this.host,
        (host) => read(host, id, message, () => visit === this.visit),
        (conversation) => {
          if (visit !== this.visit) return;
          this.fill(conversation);
          this.target = message;
        },
      );
    } catch (error) {
      if (visit !== this.visit) return;
      this.clear();
      this.problem = asProblem(error);
    } finally {
      if (visit === this.visit) this.opening = false;
    }
  }

  /** Starts a new conversation, in a folder or in none. */
  startNew(folder: number | null = null): void {
    this.visit++;
    this.opening = false;
    this.problem = null;
    this.clear();
    this.folder = folder;
  }

  /** Sends a message after `parent`; `null` means after the open branch. */
  async send(text: string, files: TextFile[], parent: number | null = null): Promise<Sent> {
    const beginning = this.beginning();
    return this.begin(
      () => this.host.send(this.id, parent ?? this.leaf, text, files, beginning),
      this.id === null,
      beginning,
    );
  }

  /** Sends a message that gets several answers. */
  async compare(
    answers: ComparedAnswer[],
    text: string,
    files: TextFile[],
    parent: number | null = null,
  ): Promise<Compared> {
    const beginning = this.beginning();
    return this.begin(
      () => this.host.compare(this.id, parent ?? this.leaf, text, files, answers, beginning),
      this.id === null,
      beginning,
    );
  }

  /** Generates another answer; `overrides` are what is not the conversation's. */
  async regenerate(message: number, overrides: AnswerOverrides | null = null): Promise<Sent> {
    return this.begin(() => this.host.regenerate(message, overrides), false);
  }

  async edit(message: number, text: string): Promise<Sent> {
    return this.begin(() => this.host.edit(message, text), false);
  }

  /** Goes on with the last answer of a branch. */
  async continueAnswer(message: number): Promise<Sent> {
    return this.begin(() => this.host.continueAnswer(message), false);
  }

  /** Adds a version of an answer; with `goOn`, the model continues it. */
  async editAnswer(message: number, text: string, goOn: boolean): Promise<Sent> {
    return this.begin(() => this.host.editAnswer(message, text, goOn), false);
  }

  async stop(): Promise<void> {
    if (this.id !== null) await this.host.stop(this.id);
  }

  /** Switches to the branch through another message. */
  async select(message: number): Promise<void> {
    const id = this.id;
    if (id === null) return;
    await this.reading.read(
      this.host,
      (host) => host.selectLeaf(id, message),
      (conversation) => {
        if (this.id === id) this.fill(conversation);
      },
    );
  }

  /** A message and all messages below it, in all versions. */
  subtree(message: number): ReadonlySet<number> {
    return this.tree.subtree(message);
  }

  /** Deletes a message and all messages below it. */
  async delete(message: number): Promise<DeletedMessages> {
    const deleted = await this.host.deleteMessage(message);
    const { id } = deleted.conversation;
    // The deletion waits for answers to stop and is not ordered, so its reply may be out of date.
    if (this.id === id)
      await this.reading.read(
        this.host,
        (host) => host.openConversation(id),
        (conversation) => {
          if (this.id === id) this.fill(conversation);
        },
      );
    return deleted;
  }

  /** Undoes the deletion of a message. */
  async restore(conversation: number, message: number): Promise<void> {
    await this.reading.read(
      this.host,
      (host) => host.restoreMessages(message),
      (restored) => {
        if (this.id === conversation) this.fill(restored);
      },
    );
  }

  async setSystemPrompt(text: string | null): Promise<void> {
    const id = this.id;
    if (id !== null) await this.host.setSystemPrompt(id, text);
    if (this.id === id) this.systemPrompt = text;
  }

  /** Whether a setting differs from its default. */
  readonly hasSettings: boolean = $derived.by(
    () => this.systemPrompt !== null || !same(this.settings, defaultChatSettings),
  );

  async setSettings(settings: ConversationSettings): Promise<void> {
    const id = this.id;
    this.settings = settings;
    if (id === null) return;
    try {
      await this.host.setConversationSettings(id, settings);
      if (this.id === id) this.saved.settings = settings;
    } catch (error) {
      if (this.id === id && this.settings === settings) this.settings = this.saved.settings;
      throw error;
    }
  }

  /** Shows settings that the app has applied to the open conversation. */
  show({ settings, systemPrompt }: Pick<NewConversation, "settings" | "systemPrompt">): void {
    this.settings = this.saved.settings = settings;
    this.systemPrompt = systemPrompt;
  }

  async resetSettings(): Promise<void> {
    await this.setSettings(defaultChatSettings);
    await this.setSystemPrompt(null);
  }

  async setAdapters(choices: readonly AdapterChoice[]): Promise<void> {
    const id = this.id;
    this.adapters = choices;
    if (id === null) return;
    try {
      await this.host.setConversationAdapters(id, [...choices]);
      if (this.id === id) this.saved.adapters = choices;
    } catch (error) {
      if (this.id === id && this.adapters === choices) this.adapters = this.saved.adapters;
      throw error;
    }
  }

  async rate(message: number, thumb: Thumb | null, correction: string | null): Promise<void> {
    await this.host.rateAnswer(message, thumb, correction);
    const node = this.nodes.get(message);
    const rated = thumb ?? (correction === null ? null : "down");
    if (node) node.message = { ...node.message, rating: rated && { thumb: rated, correction } };
  }

  /**
   * Votes for one of the compared answers; `false` withdraws the vote. A conversation that ends
   * with the comparison continues from the voted answer.
   */
  async vote(message: number, better: boolean): Promise<void> {
    await this.host.voteAnswer(message, better);
    const node = this.nodes.get(message);
    if (!node) return;
    const compared = this.compared(node.message);
    for (const other of compared) other.message = { ...other.message, better: better && other === node };
    if (better && compared.some((other) => other.message.id === this.leaf)) await this.select(message);
  }

  /** Answers of the comparison that includes a message, by id; empty if it is not compared. */
  compared(message: Message): MessageNode[] {
    void this.version;
    if (message.comparison === null) return [];
    const ring = new Map<number, MessageNode>();
    for (
      let next: number | null = message.comparison;
      next !== null && !ring.has(next);
      next = ring.get(next)?.message.comparison ?? null
    ) {
      const node = this.nodes.get(next);
      if (!node) return [];
      ring.set(next, node);
    }
    return [...ring.values()].sort((a, b) => a.message.id - b.message.id);
  }

  /**
   * The versions of a message, as ids to select, and the index of the version that includes it. The
   * answers of a comparison are one version.
   */
  versions(message: number): { ids: readonly number[]; index: number } {
    void this.version;
    const versions = this.tree.versions(message, (id) => {
      const node = this.nodes.get(id);
      return node ? this.compared(node.message).map((answer) => answer.message.id) : [];
    });
    const isBetter = (id: number) => this.nodes.get(id)?.message.better ?? false;
    return {
      ids: versions.map((ids) => ids.find(isBetter) ?? this.tree.continued(ids)),
      index: versions.findIndex((ids) => ids.includes(message)),
    };
  }

  handle(event: Announced): void {
    switch (event.type) {
      case "messageDelta":
        this.live.grow(event.message, this.nodes.get(event.message)?.message.parts ?? [], event);
        break;
      case "messageFolded":
        this.live.fold(event.message);
        break;
      case "messageChanged":
        this.reading.handle(event);
        break;
      case "contextUsed":
        if (event.conversation === this.id) this.reportedContext = { used: event.used, total: event.total };
        break;
      case "conversationRemoved":
        this.live.drop(event.id);
        if (event.id === this.id || (this.opening && event.id === this.requestedId)) this.startNew();
        break;
    }
  }

  private beginning(): NewConversation {
    const { settings, systemPrompt, folder, adapters } = this;
    return { settings, systemPrompt, folder, adapters: [...adapters] };
  }

  private async begin<T extends Sent | Compared>(
    command: () => Promise<T>,
    isNew: boolean,
    beginning: NewConversation | null = null,
  ): Promise<T> {
    const visit = this.visit;
    const early = new Map<number, Message>();
    this.early.add(early);
    this.sendings++;
    try {
      const sent = await command();
      const sentAnswers = "answer" in sent ? [sent.answer] : sent.answers;
      const answers = sentAnswers.map((answer) => early.get(answer.id) ?? this.live.merge(answer));
      // If the user opened another conversation meanwhile, it stays open.
      if (visit !== this.visit) return sent;
      if (isNew) {
        this.clear();
        this.id = sent.conversation.id;
        if (beginning) this.show(beginning);
        this.adapters = this.saved.adapters = beginning?.adapters ?? [];
      }
      if (sent.user) this.put(sent.user);
      for (const answer of answers) {
        this.put(answer);
        this.leaf = answer.id;
      }
      if (sentAnswers.every(isActive)) this.requested = { answer: Math.min(...sentAnswers.map(({ id }) => id)) };
      this.reportedContext = null;
      return sent;
    } finally {
      this.sendings--;
      this.early.delete(early);
    }
  }

  private changed(received: Message): void {
    const message = this.live.merge(received);
    if (this.tree.has(message.id)) this.put(message);
    else for (const early of this.early) early.set(message.id, message);
  }

  private put(message: Message): void {
    const node = this.nodes.get(message.id);
    if (node) {
      node.message = message;
      return;
    }
    this.nodes.set(message.id, new MessageNode(message));
    this.tree.add(message);
    this.version++;
  }

  private fill(conversation: Conversation): void {
    this.opened(conversation);
    const same = this.id === conversation.id;
    const nodes = new Map<number, MessageNode>();
    for (const received of conversation.messages) {
      const message = isActive(received) ? this.live.merge(received) : received;
      const existing = same ? this.nodes.get(message.id) : undefined;
      if (existing) existing.message = message;
      nodes.set(message.id, existing ?? new MessageNode(message));
    }
    this.nodes = nodes;
    this.tree = new Tree(conversation.messages);
    this.id = conversation.id;
    this.folder = null;
    this.systemPrompt = conversation.systemPrompt;
    this.adapters = conversation.adapters;
    this.settings = conversation.settings;
    this.saved = { settings: this.settings, adapters: this.adapters };
    this.leaf = conversation.leaf;
    this.reportedContext = null;
    this.target = null;
    this.version++;
  }

  private clear(): void {
    this.id = null;
    this.nodes = new Map();
    this.tree = new Tree();
    this.leaf = null;
    this.reportedContext = null;
    this.target = null;
    this.systemPrompt = null;
    this.settings = defaultChatSettings;
    this.adapters = [];
    this.saved = { settings: this.settings, adapters: this.adapters };
    this.folder = null;
    this.version++;
  }
}

/**
 * Reads a conversation, on the branch with a message. One that is no longer wanted keeps its
 * branch.
 */
async function read(host: Host, id: number, message: number | null, isWanted: () => boolean): Promise<Conversation> {
  const conversation = await host.openConversation(id);
  if (message === null || !isWanted() || new Tree(conversation.messages).path(conversation.leaf).includes(message))
    return conversation;
  return host.selectLeaf(id, message);
}
