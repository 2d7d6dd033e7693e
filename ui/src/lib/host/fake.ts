// The fake host: runs the whole UI in a browser, with conversations in memory and scripted answers.
// `?scene=` picks its initial state (see fake/scenes.ts); tests control it through
// `window.fakeHost`.

import { folded, grown, plain, textOf } from "../text/parts";
import { continuation, scriptedAnswer, scriptedTitle, tunedAnswer, type Script } from "./fake/answers";
import { afterCheck } from "./fake/checks";
import { fluctuate } from "./fake/devices";
import { FakeGetting } from "./fake/getting";
import { asParts, checkedTags } from "./fake/organizing";
import { addedModel, inFolder, loadedState, templateOf } from "./fake/models";
import { planFor } from "./fake/plans";
import {
  CRASHED,
  MESSAGE_DELETED,
  MODEL_GONE,
  NO_CONVERSATION,
  NO_MESSAGE,
  noSuchDevice,
  PARENT_DELETED,
  problem,
} from "./fake/problems";
import { FakeTrash, newestLeaf, subtree } from "./fake/trash";
import { initialWorld, linked, type World } from "./fake/scenes";
import { onlySet, withOverrides } from "../text/sampling";
import { matchesDevice } from "../text/devices";
import { deviceStatusText } from "../text/sentence";
import { estimateTokens } from "../text/tokens";
import type {
  Adapter,
  AdapterChoice,
  AnswerOverrides,
  Cache,
  CacheUsage,
  ChatFormat,
  Compared,
  ComparedAnswer,
  Conversation,
  ConversationSettings,
  ConversationSummary,
  Dataset,
  DeletedConversation,
  DeletedMessages,
  Device,
  ExportedChats,
  ExportLabels,
  Host,
  ImportReport,
  Link,
  LoadSettings,
  Measurement,
  Message,
  MessageDeletion,
  Model,
  ModelState,
  NewConversation,
  PendingRestore,
  Plan,
  Problem,
  SearchFilter,
  SearchHit,
  Sent,
  Settings,
  Snapshot,
  Stage,
  TextFile,
  Thumb,
  TrayContent,
  Unsent,
  UnsentChange,
  UnsentCount,
  UnsentDraft,
  WrittenBackup,
} from "./host";
import { defaultBeginning, nothingUnsent } from "./host";

/** The problem of a crashed worker. */
const WORKER_DIED = problem("workerDied", { area: "chat", type: "workerDied", cause: CRASHED });

/** The problem of a worker of another version. */
const UPDATED = problem("updated", { area: "worker", type: "otherVersion", version: "0.2.0" });

const CONTEXT = 2048;

interface Generation {
  conversation: number;
  stopped: boolean;
  crashed: boolean;
}

export class FakeHost extends FakeGetting implements Host {
  /** Notifications, newest last. */
  notified: [string, string][] = [];
  /** Contents of the tray icon's menu, newest last. */
  trays: (TrayContent | null)[] = [];
  /** Whether the desktop has a tray. */
  hasTray = true;
  /** The load settings of the requested plans, newest last. */
  planned: LoadSettings[] = [];
  /** Exports of conversations, newest last. */
  exports: { conversation: number | null; format: ChatFormat; user: string; path: string }[] = [];
  /** The backup that is chosen. */
  backup = "/media/you/disk/Hearth.hearthbackup";
  /** Links that the page has not taken. */
  private readonly linked: Link[] = [];
  private readonly world: World;
  private polls = 0;
  private measuring = false;
  private importCancelled = false;
  /** States of the models that were loaded, by id. */
  private readonly live = new Map<string, ModelState>();
  /** Adapters merged into models, by the models' ids. */
  private readonly merged = new Map<string, number>();
  private readonly generating = new Map<number, Generation>();
  private readonly trash = new FakeTrash();
  /** Conversations whose title is the first words of the first message. */
  private readonly titledByWords = new Set<number>();
  /** Conversations to title once no answer is in progress: the first answer, and the text of its message. */
  private readonly toTitle = new Map<number, { answer: Message; text: string }>();
  private readonly notSent = new Map<number | null, Unsent>();
  /** Drafts whose tokens were counted, newest last. */
  readonly counts: UnsentDraft[] = [];
  /** The draft that was counted last. */
  private counted: { revision: number; text: string; files: TextFile[] } | null = null;

  constructor(scene: string | null) {
    super(["fresh", "no-model", "first-run", "busy-first-run"].includes(scene ?? ""));
    this.world = initialWorld(scene);
    const { modelState } = this.world;
    if (modelState.type !== "none") this.live.set(modelState.model, modelState);
    if (this.world.pace !== undefined) this.pace = this.world.pace;
    this.fillDownloads(this.world.downloads);
    this.wasBusy = scene === "busy-first-run";
    if (scene === "presets") this.fillPresets();
    if (scene === "organized") this.fillOrganized();
    if (scene === "link") this.linked.push(linked);
  }

  async snapshot(): Promise<Snapshot> {
    const { settings, models, modelState, conversations } = this.world;
    const shown = [...conversations.values()].filter((c) => !this.world.deleted.has(c.id));
    return {
      version: "0.1.0",
      settings,
      conversations: shown.map((c) => this.summary(c)),
      folders: this.folders,
      models,
      modelState,
      liveModels: [...this.live.values()],
      defaultModel: models.find((m) => m.problem === null)?.id ?? null,
      defaultHub: "https://huggingface.co",
      unsent: this.unsent(null),
      answering: [...this.generating].map(([message, { conversation }]) => ({ conversation, message })),
    };
  }

  async openConversation(id: number): Promise<Conversation> {
    const conversation = this.conversation(id);
    return { ...conversation, unsent: this.unsent(id), messages: conversation.messages.map((m) => ({ ...m })) };
  }

  async saveUnsent(conversation: number | null, change: UnsentChange): Promise<void> {
    if (conversation !== null) this.conversation(conversation);
    const { text, files, queue } = this.unsent(conversation);
    this.notSent.set(conversation, {
      text: change.text ?? text,
      files: change.files ?? files,
      queue: change.queue ?? queue,
    });
  }

  async countUnsent(draft: UnsentDraft): Promise<UnsentCount> {
    this.counts.push(draft);
    const { conversation, leaf, text, files, fresh } = draft;
    const home = conversation === null ? null : this.conversation(conversation);
    const named = (home?.settings ?? fresh.settings).model;
    const state = named === null ? this.world.modelState : this.live.get(named);
    if (state?.type !== "ready") {
      this.counted = null;
      return { type: "unavailable" };
    }
    if (text.base !== null && this.counted?.revision !== text.base) return { type: "unknown" };
    const before = text.base === null ? null : this.counted;
    const present = before?.text ?? "";
    this.counted = {
      revision: text.revision,
      text: present.slice(0, text.start) + text.inserted + present.slice(text.start + text.removed),
      files: files ?? before?.files ?? [],
    };
    const used = this.branchTokens(home, leaf);
    const own = this.counted.files.reduce(
      (sum, file) => sum + estimateTokens(file.name) + estimateTokens(file.text),
      estimateTokens(this.counted.text),
    );
    return { type: "counted", tokens: { conversation: used, total: used + own } };
  }

  /** Tokens of a branch. */
  private branchTokens(home: Conversation | null, leaf: number | null): number {
    let used = 0;
    for (let id = leaf; id !== null && home;) {
      const message = home.messages.find((message) => message.id === id);
      if (message?.stats) return used + message.stats.contextUsed;
      used += estimateTokens(textOf(message?.parts ?? []));
      id = message?.parent ?? null;
    }
    return used;
  }

  private unsent(conversation: number | null): Unsent {
    return this.notSent.get(conversation) ?? nothingUnsent;
  }

  async send(
    conversation: number | null,
    parent: number | null,
    text: string,
    files: TextFile[] = [],
    fresh: NewConversation = defaultBeginning,
  ): Promise<Sent> {
    if (text.startsWith("/refuse")) throw problem("busy", { area: "chat", type: "answering" });
    if (parent !== null) this.find(parent);
    const home = conversation === null ? this.beginConversation(text, fresh) : this.conversation(conversation);
    const user = this.message(home, parent, "user", text);
    user.parts = [...asParts(files), ...user.parts];
    return this.answer(home, user, user);
  }

  async regenerate(message: number, overrides: AnswerOverrides | null = null): Promise<Sent> {
    const [home, old] = this.find(message);
    const user = old.role === "user" ? old : home.messages.find((m) => m.id === old.parent);
    if (!user) throw NO_MESSAGE;
    return this.answer(home, user, null, overrides);
  }

  async edit(message: number, text: string): Promise<Sent> {
    const [home, old] = this.find(message);
    const user = this.message(home, old.parent, "user", text);
    user.parts = [...old.parts.filter(({ type }) => type !== "text"), ...user.parts];
    return this.answer(home, user, user);
  }

  async continueAnswer(message: number): Promise<Sent> {
    const [home, answer] = this.find(message);
    if (home.messages.some((m) => m.parent === message))
      throw problem("badRequest", { area: "chat", type: "hasReplies" });
    return this.goOn(home, answer);
  }

  async editAnswer(message: number, text: string, goOn: boolean): Promise<Sent> {
    const [home, old] = this.find(message);
    const edited = this.message(home, old.parent, "assistant", text);
    edited.parts = [...old.parts.filter(({ type }) => type !== "text"), ...edited.parts];
    Object.assign(edited, { model: old.model, adapters: old.adapters, edited: true });
    return goOn ? this.goOn(home, edited) : { conversation: this.summary(home), user: null, answer: { ...edited } };
  }

  private goOn(home: Conversation, answer: Message): Sent {
    answer.state = { type: "waiting" };
    home.leaf = answer.id;
    const question = textOf(home.messages.find((m) => m.id === answer.parent)?.parts ?? []);
    const sent: Sent = { conversation: this.summary(home), user: null, answer: { ...answer } };
    void this.write(home, answer, question, continuation(scriptedAnswer(question), textOf(answer.parts)));
    return sent;
  }

  async setConversationSettings(conversation: number, chosen: ConversationSettings): Promise<void> {
    const temperature = chosen.sampling.temperature;
    if (temperature !== null && temperature > 100)
      throw problem("badRequest", {
        area: "chat",
        type: "outOfRange",
        setting: { type: "temperature" },
        least: "0",
        most: "100",
        value: String(temperature),
      });
    this.conversation(conversation).settings = chosen;
  }

  async applyPreset(id: string, conversation: number | null, fresh: NewConversation): Promise<NewConversation> {
    if (conversation === null) return this.withPreset(id, fresh);
    const home = this.conversation(conversation);
    return Object.assign(
      home,
      await this.withPreset(id, {
        settings: home.settings,
        systemPrompt: home.systemPrompt,
        folder: null,
        adapters: home.adapters,
      }),
    );
  }

  async stop(conversation: number): Promise<void> {
    for (const run of this.generating.values()) if (run.conversation === conversation) run.stopped = true;
  }

  async selectLeaf(conversation: number, message: number): Promise<Conversation> {
    const home = this.conversation(conversation);
    home.leaf = newestLeaf(home.messages, message);
    return this.openConversation(conversation);
  }

  async deleteMessage(id: number): Promise<DeletedMessages> {
    const [home] = this.find(id);
    const messages = subtree(home.messages, id);
    this.countVotes(home, -1);
    const count = this.trash.delete(home, id);
    this.countVotes(home, 1);
    // After the deletion: a deleted answer titles nothing.
    for (const message of messages) {
      const run = this.generating.get(message.id);
      if (!run) continue;
      run.stopped = true;
      this.finish(home, message, { type: "stopped" });
    }
    this.changed(home.id);
    return { conversation: await this.openConversation(home.id), count };
  }

  async restoreMessages(id: number): Promise<Conversation> {
    const home = this.world.conversations.get(this.trash.homeOf(id) ?? -1);
    if (!home || this.world.deleted.has(home.id)) throw NO_MESSAGE;
    if (this.trash.isParentMissing(home, id)) throw PARENT_DELETED;
    this.countVotes(home, -1);
    this.trash.restore(home, id);
    this.countVotes(home, 1);
    this.changed(home.id);
    return this.openConversation(home.id);
  }

  async messageDeletions(): Promise<MessageDeletion[]> {
    return this.trash.list([...this.world.conversations.values()].filter(({ id }) => !this.world.deleted.has(id)));
  }

  async purgeMessages(ids: number[]): Promise<void> {
    for (const id of ids) this.trash.purge(id);
  }

  async branchOff(message: number, title: string): Promise<ConversationSummary> {
    const [source, last] = this.find(message);
    const { settings, systemPrompt, adapters } = source;
    const { folder, tags } = this.placeOf(source.id);
    const home = this.createConversation(title, { settings, systemPrompt, folder, adapters });
    home.title = title;
    home.model = source.model;
    this.put(home.id, { tags });
    const branch: Message[] = [];
    for (let at: Message | undefined = last; at;) {
      branch.unshift(at);
      const parent: number | null = at.parent;
      at = source.messages.find(({ id }) => id === parent);
    }
    for (const original of branch) {
      const copy = this.message(home, home.leaf, original.role, "");
      const { id, conversation, parent } = copy;
      Object.assign(copy, original, { id, conversation, parent, comparison: null, better: false, rating: null });
    }
    this.changed(home.id);
    return this.summary(home);
  }

  /** Adds the votes in a conversation to the adapters' votes, or subtracts them. */
  private countVotes(home: Conversation, sign: 1 | -1): void {
    for (const better of home.messages.filter((message) => message.better && message.comparison !== null)) {
      const compared = home.messages.filter(
        (message) => message.parent === better.parent && message.comparison !== null,
      );
      const tuned = compared.find(({ adapters }) => adapters.length > 0);
      const isTuned = better.adapters.length > 0;
      if (tuned) this.vote(tuned.adapters, { tuned: isTuned ? sign : 0, base: isTuned ? 0 : sign });
    }
  }

  async renameConversation(id: number, title: string): Promise<void> {
    const conversation = this.conversation(id);
    conversation.title = title;
    this.titledByWords.delete(id);
    this.emit({ type: "conversationChanged", conversation: this.summary(conversation), leaf: conversation.leaf });
  }

  async deleteConversation(id: number): Promise<void> {
    this.world.deleted.add(id);
    this.emit({ type: "conversationRemoved", id });
  }

  async restoreConversation(id: number): Promise<void> {
    this.world.deleted.delete(id);
    const conversation = this.conversation(id);
    this.emit({ type: "conversationChanged", conversation: this.summary(conversation), leaf: conversation.leaf });
  }

  async deletedConversations(): Promise<DeletedConversation[]> {
    return [...this.world.deleted].reverse().map((id) => ({ id, title: this.conversation(id).title, daysLeft: 30 }));
  }

  async purgeConversations(ids: number[]): Promise<void> {
    for (const id of ids) if (this.world.deleted.delete(id)) this.world.conversations.delete(id);
  }

  async pinConversation(id: number, pinned: boolean): Promise<void> {
    const conversation = this.conversation(id);
    if (pinned) this.world.pinned.add(id);
    else this.world.pinned.delete(id);
    this.emit({ type: "conversationChanged", conversation: this.summary(conversation), leaf: conversation.leaf });
  }

  async setSystemPrompt(conversation: number, text: string | null): Promise<void> {
    this.conversation(conversation).systemPrompt = text;
  }

  async moveConversation(id: number, folder: number | null): Promise<void> {
    this.put(id, { folder });
    this.changed(id);
  }

  async setTags(conversation: number, tags: string[]): Promise<void> {
    this.put(conversation, { tags: checkedTags(tags) });
    this.changed(conversation);
  }

  protected async emitConversations(): Promise<void> {
    this.emit({ type: "conversationsChanged", conversations: (await this.snapshot()).conversations });
  }

  private changed(id: number): void {
    const home = this.conversation(id);
    this.emit({ type: "conversationChanged", conversation: this.summary(home), leaf: home.leaf });
  }

  async search(query: string, filter: SearchFilter): Promise<SearchHit[]> {
    const needle = query.trim().toLowerCase();
    const hits: SearchHit[] = [];
    for (const c of this.world.conversations.values()) {
      if (this.world.deleted.has(c.id) || hits.length >= 50) continue;
      if (!this.isWithin(c, filter)) continue;
      const matches =
        needle === ""
          ? []
          : c.messages.filter(
              (m) => (filter.role ?? m.role) === m.role && textOf(m.parts).toLowerCase().includes(needle),
            );
      for (const message of matches)
        hits.push({
          conversation: c.id,
          title: c.title,
          message: message.id,
          snippet: snippet(textOf(message.parts), needle),
          updatedAt: c.updatedAt,
        });
      if (matches.length > 0 || filter.role || !c.title.toLowerCase().includes(needle)) continue;
      hits.push({
        conversation: c.id,
        title: c.title,
        message: null,
        snippet: snippet(c.title, needle),
        updatedAt: c.updatedAt,
      });
    }
    return hits;
  }

  async cancelImport(): Promise<void> {
    this.importCancelled = true;
  }

  async importConversations(path: string): Promise<ImportReport> {
    this.importCancelled = false;
    for (let step = 1; step <= 10; step++) {
      if (this.importCancelled) throw problem("cancelled", { area: "data", type: "importCancelled" });
      this.emit({ type: "importProgress", fraction: step / 10 });
      await this.rest(2);
    }
    if (/photo|broken/i.test(path)) throw problem("dataInvalid", { area: "data", type: "noConversations", path });
    const wasImported = this.world.imported.has(path);
    this.world.imported.add(path);
    const titles = ["Plan a week in Lisbon", "Regex for dates", "Which fern survives a dark hall?"];
    if (!wasImported) for (const title of titles) this.addImported(title);
    await this.emitConversations();
    return {
      formats: ["chatGpt"],
      found: 5,
      imported: wasImported ? 0 : 3,
      extended: 0,
      known: wasImported ? 3 : 0,
      messages: wasImported ? 0 : 6,
      skipped: [
        { reason: "empty", limit: null, count: 1, example: "New chat" },
        { reason: "malformed", limit: null, count: 1, example: null },
      ],
    };
  }

  private addImported(title: string): void {
    const home = this.createConversation(title);
    home.createdAt = home.updatedAt = Date.now() - 400 * 86_400_000;
    const question = this.message(home, null, "user", `${title}?`);
    this.message(home, question.id, "assistant", "Here is a start.");
  }

  async exportConversations(
    conversation: number | null,
    format: ChatFormat,
    labels: ExportLabels,
    path: string,
  ): Promise<ExportedChats> {
    await this.rest(5);
    const { conversations } = await this.snapshot();
    const conversationsWritten = conversation === null ? conversations.length : 1;
    this.exports.push({ conversation, format, user: labels.user, path });
    return { path, conversations: conversationsWritten, bytes: conversationsWritten * 4200 };
  }

  async backUp(path: string): Promise<WrittenBackup> {
    await this.rest(5);
    return {
      path,
      bytes: 48_300_000,
      files: 27,
      skipped: [{ reason: "notAFile", count: 1, example: "runs/3/latest" }],
    };
  }

  async restoreBackup(path: string): Promise<PendingRestore> {
    this.extracting = true;
    for (let percent = 10; percent <= 100; percent += 10) {
      await this.rest(1);
      if (!this.extracting) throw problem("cancelled", { area: "data", type: "restoreCancelled" });
      this.emit({ type: "restoreProgress", fraction: percent / 100 });
    }
    this.extracting = false;
    if (/damaged/.test(path))
      throw problem("dataInvalid", {
        area: "data",
        type: "backupDamaged",
        path,
        damage: { type: "otherHash", name: "hearth.db" },
      });
    this.pendingRestore = {
      madeAt: Date.now() - 86_400_000,
      conversations: 212,
      files: 27,
      skipped: [],
      aside: "/home/you/.local/share/hearth/hearth-set-aside-1764000000000",
    };
    return this.pendingRestore;
  }

  async cancelRestore(): Promise<void> {
    this.extracting = false;
    this.pendingRestore = null;
  }

  async chooseBackupTarget(): Promise<string | null> {
    return "/media/you/disk/Hearth.hearthbackup";
  }

  async chooseBackup(): Promise<string | null> {
    return this.backup;
  }

  async chooseImport(folder: boolean): Promise<string | null> {
    return folder ? "/home/you/.lmstudio/conversations" : "/home/you/Downloads/chatgpt-export.zip";
  }

  async chooseChatExport(format: ChatFormat, title: string): Promise<string | null> {
    return `/home/you/${title}.${{ markdown: "md", html: "html", json: "json" }[format]}`;
  }

  async loadModel(id: string): Promise<void> {
    const model = this.world.models.find((m) => m.id === id);
    if (!model) throw MODEL_GONE;
    if (model.problem !== null) {
      this.setModelState({ type: "failed", model: id, problem: model.problem });
      return;
    }
    for await (const progress of this.loading()) this.setModelState({ type: "loading", model: id, ...progress });
    this.setModelState(loadedState(model, this.world.settings, this.world, this.world.models));
  }

  /** The progress of a load. */
  private async *loading(): AsyncGenerator<{ fraction: number; stage: Stage }> {
    for (let step = 0; step <= 10; step++) {
      yield { fraction: step / 10, stage: { type: step < 4 ? "openingFile" : "readingWeights" } };
      await this.rest(3);
    }
  }

  /** Loads the model of an answer. The answer shows the progress. */
  private async loadFor(home: Conversation, answer: Message, model: Model, run: Generation): Promise<void> {
    const isNamed = this.namedModel(home, answer) !== undefined;
    const show = (state: ModelState) => (isNamed ? this.setLive(model.id, state) : this.setModelState(state));
    for await (const progress of this.loading()) {
      show({ type: "loading", model: model.id, ...progress });
      if (!run.stopped) this.change(home, answer, { state: { type: "loading", ...progress } });
    }
    show(loadedState(model, this.world.settings, this.world, this.world.models));
  }

  async unloadModel(): Promise<void> {
    this.setModelState({ type: "none" });
  }

  async addModel(path: string) {
    if (/lora/i.test(path)) throw problem("isAdapter", { area: "models", type: "isAdapter", path });
    const model = addedModel(path);
    this.world.models = [...this.world.models, model];
    this.emit({ type: "modelsChanged", models: this.world.models });
    return model;
  }

  async addMergedModel(path: string, adapter: number): Promise<Model> {
    const { id } = await this.addModel(path);
    this.merged.set(id, adapter);
    this.nameMerged(await this.adapters());
    return this.world.models.find((model) => model.id === id) ?? addedModel(path);
  }

  /** Gives merged models the names of their adapters. */
  protected nameMerged(adapters: readonly Adapter[]): void {
    const nameOf = ({ id, name }: Model) =>
      adapters.find((adapter) => adapter.id === this.merged.get(id))?.name ?? name;
    const models = this.world.models.map((model) => ({ ...model, name: nameOf(model) }));
    this.world.models = models;
    if (this.merged.size > 0) this.emit({ type: "modelsChanged", models });
  }

  async chatTemplate(id: string): Promise<string | null> {
    await this.rest();
    const model = this.world.models.find((candidate) => candidate.id === id);
    if (!model) throw MODEL_GONE;
    return templateOf(model);
  }

  async rescanModels(): Promise<Model[]> {
    await this.rest(8);
    const folders = this.world.settings.modelFolders.filter((folder) => !/empty/.test(folder)).map(inFolder);
    this.world.models = [...this.world.models.filter(({ source }) => source !== "folder"), ...folders];
    this.emit({ type: "modelsChanged", models: this.world.models });
    return this.world.models;
  }

  protected get devicesNow(): readonly Device[] {
    return this.world.devices;
  }

  protected get modelsNow(): readonly Model[] {
    return this.world.models;
  }

  protected get isOffline(): boolean {
    return this.world.settings.offline;
  }

  protected get hubEndpoint(): string | null {
    return this.world.settings.hubEndpoint;
  }

  protected addDownloadedModel(model: Model): void {
    this.world.models = [...this.world.models.filter(({ id }) => id !== model.id), model];
    this.emit({ type: "modelsChanged", models: this.world.models });
  }

  async removeModel(id: string): Promise<void> {
    this.world.models = this.world.models.filter((m) => m.id !== id);
    this.emit({ type: "modelsChanged", models: this.world.models });
  }

  async setSettings(settings: Settings): Promise<void> {
    this.world.settings = settings;
    this.fill(
      "prompts",
      Math.min(settings.promptCacheLimit, this.world.caches.find((c) => c.cache === "prompts")?.bytes ?? 0),
    );
    const state = this.world.modelState;
    const model = this.world.models.find((m) => state.type === "ready" && m.id === state.model);
    // Like the app: reloads the model if the settings would load it differently.
    if (model && JSON.stringify(loadedState(model, settings, this.world, this.world.models)) !== JSON.stringify(state))
      void this.loadModel(model.id);
  }

  async setZoom(factor: number): Promise<void> {
    if (typeof document !== "undefined") document.documentElement.style.setProperty("zoom", String(factor));
  }

  async devices(): Promise<Device[]> {
    this.polls += 1;
    return fluctuate(this.world.devices, this.polls);
  }

  async checkDevice(device: string): Promise<Device[]> {
    await this.rest(60);
    if (!this.world.devices.some((d) => matchesDevice(device, d))) throw noSuchDevice(device, this.world.devices);
    this.world.devices = afterCheck(this.world.machine, this.world.devices, device);
    return this.devices();
  }

  async plan(model: string, loadSettings: LoadSettings): Promise<Plan> {
    this.planned.push(loadSettings);
    await this.rest(3);
    const target = this.world.models.find((m) => m.id === model);
    if (!target || target.problem !== null) throw target?.problem ?? MODEL_GONE;
    return planFor(target, loadSettings, this.world, this.world.models);
  }

  async measure(): Promise<Measurement> {
    const state = this.world.modelState;
    if (this.generating.size > 0) throw problem("busy", { area: "chat", type: "answeringWhileMeasuring" });
    if (state.type !== "ready") throw problem("noModel", { area: "chat", type: "nothingToMeasure" });
    this.measuring = true;
    for (let step = 1; step <= 10; step++) {
      this.emit({ type: "measureProgress", fraction: step / 10 });
      await this.rest(5);
      if (!this.measuring) throw problem("cancelled", { area: "chat", type: "measurementCancelled" });
    }
    const { gpuLayers, layersTotal, kv, threads, name } = state.info;
    const device = this.world.devices.find((d) => matchesDevice(state.info.device, d))?.identity ?? state.info.device;
    const measured: Measurement = {
      model: state.model,
      modelName: name,
      device,
      gpuLayers,
      layersTotal,
      kv,
      threads,
      promptTokensPerSecond: 1840 + 90 * gpuLayers,
      tokensPerSecond: 228.4 + 4 * gpuLayers,
      promptTokens: 512,
      tokens: 128,
      measuredAt: Date.now(),
    };
    const same = (m: Measurement) =>
      m.model === measured.model &&
      m.device === device &&
      m.gpuLayers === gpuLayers &&
      m.kv === kv &&
      m.threads === threads;
    this.world.measurements = [measured, ...this.world.measurements.filter((m) => !same(m))];
    return measured;
  }

  async stopMeasuring(): Promise<void> {
    this.measuring = false;
  }

  async measurements(): Promise<Measurement[]> {
    return this.world.measurements;
  }

  async caches(): Promise<CacheUsage[]> {
    return this.world.caches;
  }

  async clearCache(cache: Cache): Promise<CacheUsage[]> {
    this.fill(cache, 0);
    return this.world.caches;
  }

  private fill(cache: Cache, bytes: number): void {
    this.world.caches = this.world.caches.map((c) => (c.cache === cache ? { ...c, bytes } : c));
  }

  async report(): Promise<string> {
    const devices = this.world.devices.map((d) => `- ${d.id} (${d.kind}): ${d.name}. ${deviceStatusText(d.status)}`);
    return ["Hearth 0.1.0 on a browser", "", "Devices", ...devices].join("\n");
  }

  async chooseModelFile(): Promise<string | null> {
    return "/home/you/models/tiny-poet-30M.Q8_0.gguf";
  }

  async notify(title: string, body: string): Promise<void> {
    this.notified.push([title, body]);
  }

  async setTray(content: TrayContent | null): Promise<boolean> {
    this.trays.push(content);
    return content !== null && this.hasTray;
  }

  async takeLinks(): Promise<Link[]> {
    return this.linked.splice(0);
  }

  /** Opens links, as another program does. */
  openLinks(...links: Link[]): void {
    this.linked.push(...links);
    this.emit({ type: "linksOpened" });
  }

  async openLink(address: string): Promise<void> {
    this.opened.push(address);
  }

  async setConversationAdapters(conversation: number, choices: AdapterChoice[]): Promise<void> {
    this.conversation(conversation).adapters = choices;
  }

  async compare(
    conversation: number | null,
    parent: number | null,
    text: string,
    files: TextFile[],
    compared: ComparedAnswer[],
    fresh: NewConversation,
  ): Promise<Compared> {
    if (parent !== null) this.find(parent);
    const home = conversation === null ? this.beginConversation(text, fresh) : this.conversation(conversation);
    const user = this.message(home, parent, "user", text);
    user.parts = [...asParts(files), ...user.parts];
    const answers = compared.map(({ overrides, adapters }) =>
      this.waitingAnswer(
        home,
        user,
        adapters,
        overrides.model === null && overrides.preset === null ? null : overrides,
      ),
    );
    for (const [at, answer] of answers.entries()) answer.comparison = answers[(at + 1) % answers.length]?.id ?? null;
    const sent = {
      conversation: this.summary(home),
      user: { ...user },
      answers: answers.map((answer) => ({ ...answer })),
    };
    for (const answer of answers) void this.write(home, answer, text);
    return sent;
  }

  async voteAnswer(message: number, better: boolean): Promise<void> {
    const [home, answer] = this.find(message);
    if (answer.comparison === null) throw problem("badRequest", { area: "chat", type: "notCompared" });
    const all = [answer];
    for (let next = this.find(answer.comparison)[1]; next !== answer; next = this.find(next.comparison ?? message)[1])
      all.push(next);
    const tuned = all.find(({ adapters }) => adapters.length > 0);
    const previousVote = all.find((message) => message.better);
    const count = (message: Message | undefined, isTuned: boolean) =>
      Number(message !== undefined && message.adapters.length > 0 === isTuned);
    const newVote = better ? answer : undefined;
    if (tuned)
      this.vote(tuned.adapters, {
        tuned: count(newVote, true) - count(previousVote, true),
        base: count(newVote, false) - count(previousVote, false),
      });
    for (const compared of all) this.change(home, compared, { better: better && compared === answer });
    // A conversation that has continued keeps its branch.
    if (better && all.some(({ id }) => id === home.leaf)) home.leaf = answer.id;
    this.emit({ type: "conversationChanged", conversation: this.summary(home), leaf: home.leaf });
  }

  async rateAnswer(message: number, thumb: Thumb | null, correction: string | null): Promise<void> {
    const [home, answer] = this.find(message);
    const rated = thumb ?? (correction === null ? null : "down");
    this.change(home, answer, { rating: rated && { thumb: rated, correction } });
  }

  async ratedExamples(): Promise<number> {
    return [...this.world.conversations.values()]
      .flatMap((c) => c.messages)
      .filter(({ rating }) => rating && (rating.thumb === "up" || rating.correction !== null)).length;
  }

  async datasetFromRatings(name: string): Promise<Dataset> {
    return this.addRatedDataset(name, await this.ratedExamples());
  }

  /** For tests: the worker crashes. */
  killWorker(): void {
    const { modelState } = this.world;
    const model = modelState.type === "none" ? "smollm2-135m-instruct" : modelState.model;
    for (const run of this.generating.values()) run.crashed = true;
    this.setModelState({ type: "none" });
    this.emit({ type: "workerDied", model, problem: WORKER_DIED });
  }

  /** For tests: Hearth was updated in place, so no worker can be started. */
  update(): void {
    this.setModelState({ type: "failed", model: "smollm2-135m-instruct", problem: UPDATED });
  }

  /** For tests: the window is closed during this run. */
  close(run: number): void {
    this.emit({ type: "closing", run });
  }

  /** For tests: another program locks or unlocks the store. */
  lockStore(locked: boolean): void {
    this.emit({ type: "storeLocked", locked });
  }

  /** Generates an answer; returns `true` if the user stopped it. */
  private async write(
    home: Conversation,
    answer: Message,
    question: string,
    continued: Script | null = null,
  ): Promise<boolean> {
    const run: Generation = { conversation: home.id, stopped: false, crashed: false };
    this.generating.set(answer.id, run);
    this.setChatBusy(true);
    const script = continued ?? (answer.adapters.length > 0 ? tunedAnswer(question) : scriptedAnswer(question));
    if (script.end.type === "truncated" && script.end.reason === "repetition" && answer.overrides?.sampling)
      Object.assign(script, scriptedAnswer(""));
    const before = answer.stats?.tokens ?? 0;
    const { maxTokens, thinking, sampling, stop, jsonSchema } = answer.overrides?.preset?.values ?? home.settings;
    if (thinking.enabled === false) script.thought = [];
    const named = this.namedModel(home, answer);
    const isReady = (named ? this.live.get(named.id) : this.world.modelState)?.type === "ready";
    if (named && !isReady) await this.loadFor(home, answer, named, run);
    else if (!isReady) {
      const first = this.world.models.find((m) => m.problem === null);
      if (!first)
        return this.finish(home, answer, {
          type: "failed",
          problem: problem("noModel", { area: "chat", type: "noModelYet" }),
        });
      await this.loadFor(home, answer, first, run);
    }
    const selected = this.world.modelState;
    const model = named ?? this.world.models.find(({ id }) => selected.type === "ready" && id === selected.model);
    if (model) {
      answer.model = model.name;
      answer.settings = {
        sampling: {
          ...withOverrides(model.sampling, this.world.settings.sampling[model.id]),
          seed: 421,
          ...onlySet(sampling),
          ...(answer.overrides?.sampling && onlySet(answer.overrides.sampling)),
        },
        maxTokens,
        stop: stop ?? [],
        thinking: thinking.enabled === "model" ? null : thinking.enabled,
        effort: thinking.effort === "model" ? null : thinking.effort,
        jsonSchema,
      };
    }
    const tooLong = this.tooLong(question);
    if (tooLong) return this.finish(home, answer, { type: "failed", problem: tooLong });
    for (let done = 0; done < script.promptTokens && !run.stopped && !run.crashed; done += 128) {
      this.change(home, answer, { state: { type: "prefill", done, total: script.promptTokens } });
      await this.rest();
    }
    if (script.dropped)
      this.change(home, answer, {
        dropped: script.dropped,
        state: { type: "prefill", done: script.promptTokens, total: script.promptTokens },
      });
    let tokens = 0;
    const thought = script.thought.map((text) => ({ kind: "thinking" as const, text }));
    const answerPieces = [...script.folded, ...script.pieces].map((text) => ({ kind: "text" as const, text }));
    for (const { kind, text } of [...thought, ...answerPieces]) {
      if (run.stopped || run.crashed) break;
      if (maxTokens !== null && tokens >= maxTokens) {
        script.end = { type: "truncated", reason: "length" };
        break;
      }
      if (tokens === 0) this.change(home, answer, { state: { type: "streaming" } });
      tokens += 1;
      if (script.folded.length > 0 && tokens === thought.length + script.folded.length + 1) {
        answer.parts = folded(answer.parts);
        this.emit({ type: "messageFolded", message: { ...answer } });
      }
      answer.parts = grown(answer.parts, kind, text);
      this.emit({
        type: "messageDelta",
        conversation: home.id,
        message: answer.id,
        kind,
        text,
        tokens: before + tokens,
        tokensPerSecond: 228,
        contextUsed: this.contextUsed(home, tokens),
      });
      if (this.pace > 0 || tokens % 8 === 0) await this.rest();
    }
    const kind = this.world.modelState.type === "ready" ? this.world.modelState.info.draft : null;
    const used = this.contextUsed(home, tokens);
    const stats = {
      promptTokens: script.promptTokens,
      cachedTokens: 40,
      tokens: before + tokens,
      tokensPerSecond: 231.4,
      promptTokensPerSecond: 1840,
      firstTokenSeconds: 0.041,
      contextUsed: used,
      context: CONTEXT,
      draft: kind && { kind, ...script.draft },
      thinkingSeconds: script.thought.length > 0 ? 3.2 : null,
    };
    if (run.crashed) return this.finish(home, answer, { type: "failed", problem: WORKER_DIED });
    // The answer may have been deleted.
    if (this.generating.has(answer.id)) this.emit({ type: "contextUsed", conversation: home.id, used, total: CONTEXT });
    return this.finish(home, answer, run.stopped ? { type: "stopped" } : script.end, stats);
  }

  /** Tokens of the context after a number of tokens of an answer. */
  private contextUsed(home: Conversation, tokens: number): number {
    return Math.min(CONTEXT, 96 + home.messages.length * 60 + tokens);
  }

  /** The refusal of a message that does not fit into the context of the loaded model. */
  private tooLong(message: string): Problem | null {
    const state = this.world.modelState;
    const context = state.type === "ready" ? state.info.context : CONTEXT;
    const reserved = Math.min(256, Math.floor(context / 4));
    const tokens = estimateTokens(message);
    if (tokens <= context - reserved) return null;
    const fits = context - reserved;
    return problem("promptTooLong", { area: "request", type: "promptTooLong", tokens, fits, context, reserved });
  }

  private finish(
    home: Conversation,
    answer: Message,
    state: Message["state"],
    stats: Message["stats"] = null,
  ): boolean {
    this.generating.delete(answer.id);
    this.setChatBusy(this.generating.size > 0);
    this.change(home, answer, { state, stats });
    this.emit({ type: "conversationChanged", conversation: this.summary(home), leaf: home.leaf });
    this.titleLater(home, answer);
    return state.type === "stopped";
  }

  /** Titles a conversation after its first answer, once no answer is in progress. */
  private titleLater(home: Conversation, answer: Message): void {
    const isComplete = ({ role, state }: Message) =>
      role === "assistant" && ["complete", "stopped", "truncated"].includes(state.type);
    const isFirst = isComplete(answer) && home.messages.filter(isComplete).length === 1;
    if (isFirst && home.messages.includes(answer) && textOf(answer.parts) !== "")
      this.toTitle.set(home.id, { answer, text: textOf(home.messages[0]?.parts ?? []) });
    if (this.generating.size > 0) return;
    for (const [id, { answer, text }] of this.toTitle) this.giveTitle(id, answer, scriptedTitle(text));
    this.toTitle.clear();
  }

  private giveTitle(id: number, answer: Message, title: string | null): void {
    const home = this.world.conversations.get(id);
    const isWanted = this.world.settings.generatedTitles && this.titledByWords.has(id);
    if (!home?.messages.includes(answer) || title === null || !isWanted || this.world.deleted.has(id)) return;
    home.title = title;
    this.titledByWords.delete(id);
    this.emit({ type: "conversationChanged", conversation: this.summary(home), leaf: home.leaf });
  }

  private answer(
    home: Conversation,
    user: Message,
    added: Message | null,
    overrides: AnswerOverrides | null = null,
  ): Sent {
    const answer = this.waitingAnswer(home, user, home.adapters, overrides);
    const sent: Sent = { conversation: this.summary(home), user: added && { ...added }, answer: { ...answer } };
    void this.write(home, answer, textOf(user.parts));
    return sent;
  }

  private waitingAnswer(
    home: Conversation,
    user: Message,
    adapters: AdapterChoice[],
    overrides: AnswerOverrides | null = null,
  ): Message {
    const answer = this.message(home, user.id, "assistant", "");
    answer.overrides = overrides;
    answer.model = this.world.models.find(({ id }) => id === overrides?.model)?.name ?? "SmolLM2 135M Instruct";
    answer.state = { type: "waiting" };
    answer.adapters = adapters.map(({ adapter, scale }) => ({ adapter, name: this.adapterName(adapter), scale }));
    home.updatedAt = Date.now();
    return answer;
  }

  /** A new conversation of the user. */
  private beginConversation(text: string, fresh: NewConversation): Conversation {
    const home = this.createConversation(text, fresh);
    this.titledByWords.add(home.id);
    return home;
  }

  private createConversation(
    text: string,
    { settings, systemPrompt, folder, adapters }: NewConversation = defaultBeginning,
  ): Conversation {
    const now = Date.now();
    const title = (text.split("\n")[0] ?? text).slice(0, 60);
    const home: Conversation = {
      id: this.newId(),
      title,
      createdAt: now,
      updatedAt: now,
      model: null,
      systemPrompt,
      settings,
      adapters,
      leaf: null,
      messages: [],
      unsent: nothingUnsent,
    };
    this.world.conversations.set(home.id, home);
    if (folder !== null) this.put(home.id, { folder });
    return home;
  }

  private message(home: Conversation, parent: number | null, role: Message["role"], text: string): Message {
    const message: Message = {
      id: this.newId(),
      conversation: home.id,
      parent,
      role,
      parts: plain(text),
      state: { type: "complete" },
      createdAt: Date.now(),
      model: null,
      stats: null,
      dropped: null,
      adapters: [],
      comparison: null,
      better: false,
      rating: null,
      settings: null,
      edited: false,
      overrides: null,
    };
    home.messages.push(message);
    home.leaf = message.id;
    return message;
  }

  private change(home: Conversation, message: Message, change: Partial<Message>): void {
    Object.assign(message, change);
    if (this.world.conversations.has(home.id)) this.emit({ type: "messageChanged", message: { ...message } });
  }

  private setModelState(state: ModelState): void {
    this.world.modelState = state;
    this.emit({ type: "modelState", state });
    if (state.type !== "none") this.setLive(state.model, state);
    else for (const model of this.live.keys()) this.setLive(model, state);
  }

  private setLive(model: string, state: ModelState): void {
    if (state.type === "none") this.live.delete(model);
    else this.live.set(model, state);
    this.emit({ type: "liveModel", model, state });
  }

  /** The model that an answer, its conversation or its folder names. */
  private namedModel(home: Conversation, { overrides }: Message): Model | undefined {
    const folder = this.folders.find(({ id }) => id === this.placeOf(home.id).folder);
    const named = overrides?.model ?? home.settings.model ?? folder?.settings.model;
    return this.world.models.find(({ id }) => id === named);
  }

  private summary(c: Conversation): ConversationSummary {
    return {
      id: c.id,
      title: c.title,
      createdAt: c.createdAt,
      updatedAt: c.updatedAt,
      model: c.model,
      pinned: this.world.pinned.has(c.id),
      ...this.placeOf(c.id),
    };
  }

  private conversation(id: number): Conversation {
    const conversation = this.world.conversations.get(id);
    if (!conversation) throw NO_CONVERSATION;
    return conversation;
  }

  private find(message: number): [Conversation, Message] {
    for (const home of this.world.conversations.values()) {
      const found = home.messages.find((m) => m.id === message);
      if (found) return [home, found];
    }
    throw this.trash.has(message) ? MESSAGE_DELETED : NO_MESSAGE;
  }
}

function snippet(text: string, needle: string): SearchHit["snippet"] {
  const at = text.toLowerCase().indexOf(needle);
  if (at < 0 || needle === "") return [{ text: text.slice(0, 80), hit: false }];
  const from = Math.max(0, at - 30);
  return [
    { text: (from > 0 ? "…" : "") + text.slice(from, at), hit: false },
    { text: text.slice(at, at + needle.length), hit: true },
    { text: text.slice(at + needle.length, at + needle.length + 60), hit: false },
  ];
}
