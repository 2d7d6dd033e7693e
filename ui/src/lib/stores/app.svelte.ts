// Owns the stores: creates them, dispatches events, and runs actions that need several of them.

import { m } from "$messages";
import { getContext, setContext, tick } from "svelte";
import { actions, type Action } from "../actions";
import {
  asProblem,
  defaultBeginning,
  type ChatFormat,
  type Compared,
  type Device,
  type Folder,
  type Host,
  type Announced,
  type Message,
  type Model,
  type ModelState,
  type Problem,
  type SamplingParams,
  type SavedPrompt,
  type SearchFilter,
  type Sent,
  type Settings,
  type TextFile,
  type Unsent,
} from "../host";
import { Adapters } from "./adapters.svelte";
import { Announcements } from "./announcements.svelte";
import { Attachments } from "./attachments.svelte";
import { Caches } from "./caches.svelte";
import { Catalog } from "./catalog.svelte";
import { Compare } from "./compare.svelte";
import { ContextFit } from "./contextFit.svelte";
import { ContextMenu } from "./contextMenu.svelte";
import { Conversations } from "./conversations.svelte";
import { Datasets } from "./datasets.svelte";
import { Deletion } from "./deletion.svelte";
import type { OrganizingDialog } from "./dialog";
import { Downloads } from "./downloads.svelte";
import { Drafts } from "./drafts.svelte";
import { Edits } from "./edits.svelte";
import { Exports } from "./exports.svelte";
import { Folders } from "./folders.svelte";
import { ModelsPage } from "./modelsPage.svelte";
import { HubStore } from "./hub.svelte";
import { inTurns } from "../host/inTurns";
import { branchTitle } from "../text/title";
import { importSentences } from "../text/transfer";
import { problemText } from "../text/problem";
import { variables } from "../text/promptVariables";
import { withOverrides } from "../text/sampling";
import { Transfer } from "./transfer.svelte";
import { Lengths } from "./lengths.svelte";
import { Links } from "./links.svelte";
import type { Schedule } from "./live.svelte";
import { Machine } from "./machine.svelte";
import { Models } from "./models.svelte";
import { Notifications } from "./notifications";
import { Palette } from "./palette.svelte";
import { Planning } from "./planning.svelte";
import { Presets } from "./presets.svelte";
import { readPlace, writePlace, type Place } from "./place";
import { Preparation } from "./preparation.svelte";
import { commandIn, Prompts } from "./prompts.svelte";
import { MAX_QUEUED, Queue, type Queued } from "./queue.svelte";
import { Reading } from "./reading";
import { Runs } from "./runs.svelte";
import { Search } from "./search.svelte";
import { SettingsStore } from "./settings.svelte";
import { Shortcuts } from "./shortcuts.svelte";
import { Speech } from "./speech.svelte";
import type { PageStorage } from "./storage";
import { Thread } from "./thread.svelte";
import { Toasts } from "./toasts.svelte";
import { Tray } from "./tray.svelte";
import { Tune } from "./tune.svelte";
import { UnsentSaver } from "./unsent";
import { Updates } from "./updates.svelte";
import type { SettingsPage, View } from "./view";

/** The storage key of `App.chatAdvanced`. */
const ADVANCED = "hearth.chat.advanced";

export class App {
  view: View = $state("chat");
  /** The page of Settings that is open, or that opens next. */
  settingsPage: SettingsPage = $state("general");
  /** Whether the list of conversations is open in a window too narrow to show it always. */
  listOpen = $state(false);
  ready = $state(false);
  /** Whether the start has loaded everything. */
  private started = $state(false);
  /** The problem that prevented the start. */
  problem: Problem | null = $state.raw(null);
  /** The run that is saved before the window closes. */
  closing: number | null = $state(null);
  /** Height in pixels of the bars above the thread. */
  chatBars = $state(0);
  /** Whether the panel of the conversation's settings is open. */
  chatSettings = $state(false);
  /** Whether the panel shows all settings. */
  chatAdvanced = $state(false);

  /** Whether the user is asked to confirm a restart, which drops unfinished edits. */
  confirmsRestart = $state(false);

  /** The open dialog of folders, tags or saved prompts. */
  dialog: OrganizingDialog | null = $state.raw(null);

  private readonly storage: PageStorage | null;
  /** Storage that a reload of the page keeps, and a new start does not. */
  private readonly session: PageStorage | null;
  readonly folders: Folders;
  readonly conversations: Conversations;
  readonly thread: Thread;
  readonly models: Models;
  readonly settings: SettingsStore;
  readonly machine: Machine;
  readonly caches: Caches;
  readonly catalog: Catalog;
  readonly downloads: Downloads;
  readonly updates: Updates;
  readonly hub: HubStore;
  readonly modelsPage: ModelsPage;
  readonly planning: Planning;
  readonly search: Search;
  readonly transfer: Transfer;
  readonly exports: Exports;
  private readonly unsent: UnsentSaver;
  readonly drafts: Drafts;
  readonly contextMenu = new ContextMenu();
  readonly edits = new Edits();
  readonly lengths = new Lengths();
  readonly attachments: Attachments;
  readonly queue: Queue;
  private readonly notifications: Notifications;
  /** The stores that the snapshot fills. */
  private readonly reading = new Reading((event) => {
    for (const store of [this.folders, this.conversations, this.models, this.thread]) store.handle(event);
  });
  readonly shortcuts: Shortcuts;
  readonly palette: Palette;
  readonly presets: Presets = new Presets(this);
  readonly prompts: Prompts;
  readonly datasets: Datasets;
  readonly preparation: Preparation;
  readonly runs: Runs;
  readonly adapters: Adapters;
  readonly compare: Compare = new Compare(this);
  readonly deletion: Deletion = new Deletion(this);
  readonly contextFit: ContextFit = new ContextFit(this);
  readonly links: Links = new Links(this);
  readonly tray: Tray;
  readonly tune: Tune = new Tune(this);
  readonly announcements = new Announcements();
  readonly toasts = new Toasts();
  readonly speech = new Speech();
  /** Fields to focus, and the opener of the search in a conversation, while mounted. */
  readonly fields: {
    search?: HTMLInputElement | undefined;
    composer?: HTMLTextAreaElement | undefined;
    prompt?: HTMLTextAreaElement | undefined;
    find?: (() => Promise<void>) | undefined;
  } = {};

  readonly host: Host;

  constructor(
    outside: Host,
    parts: { storage?: PageStorage | null; session?: PageStorage | null; schedule?: Schedule } = {},
  ) {
    const host = (this.host = inTurns(outside));
    this.storage = parts.storage ?? null;
    this.session = parts.session ?? null;
    try {
      this.chatAdvanced = this.storage?.getItem(ADVANCED) === "1";
    } catch {
      // Unreadable storage means the simple settings.
    }
    this.folders = new Folders(host, parts.storage ?? null);
    this.conversations = new Conversations(host, this.folders);
    this.thread = new Thread(host, parts.schedule, ({ id, unsent }) => this.fillUnsent(id, unsent));
    this.models = new Models(host);
    this.settings = new SettingsStore(host);
    this.machine = new Machine(host);
    this.caches = new Caches(host);
    this.catalog = new Catalog(host);
    this.downloads = new Downloads(host);
    this.updates = new Updates(host);
    this.hub = new HubStore(host, () => this.settings.value.offline);
    this.modelsPage = new ModelsPage(this, parts.storage ?? null);
    this.planning = new Planning(host, this.settings, this.models);
    this.search = new Search(host);
    this.transfer = new Transfer(host);
    this.exports = new Exports(this);
    this.unsent = new UnsentSaver(host, (error) => this.showError(error));
    this.drafts = new Drafts(this.unsent);
    this.attachments = new Attachments(host, this.unsent);
    this.queue = new Queue(this.unsent, (conversation, parent, message) =>
      this.sendQueued(conversation, parent, message),
    );
    this.notifications = new Notifications({
      host,
      wanted: () => this.settings.value.notifications,
      title: (conversation) => this.conversations.title(conversation),
    });
    this.tray = new Tray(host);
    this.shortcuts = new Shortcuts(this.settings, actions);
    this.palette = new Palette(parts.storage ?? null);
    this.prompts = new Prompts(host);
    this.datasets = new Datasets(host);
    this.preparation = new Preparation(
      host,
      (model) => this.models.all.find(({ id }) => id === model)?.systemPrompt ?? null,
      () => [...this.runs.all, ...this.adapters.all].map(({ name }) => name),
    );
    this.runs = new Runs(host, parts.schedule);
    this.adapters = new Adapters(host);
  }

  async start(): Promise<void> {
    const place = readPlace(this.session);
    try {
      // Subscribes before the snapshot, so that no event is lost.
      await this.host.onEvent((event) => this.handle(event));
      await this.reading.read(
        this.host,
        (host) => host.snapshot(),
        (snapshot) => {
          this.defaultHub = snapshot.defaultHub;
          this.settings.fill(snapshot.settings, snapshot.version);
          this.models.fill(snapshot);
          this.folders.fill(snapshot.folders);
          this.conversations.fill(snapshot.conversations);
          this.fillUnsent(null, snapshot.unsent);
          for (const { message, conversation } of snapshot.answering) this.thread.live.begin(message, conversation);
        },
      );
      if (place) await this.try(() => this.returnTo(place));
      await this.try(() => this.settings.zoom());
    } catch (error) {
      this.problem = asProblem(error);
    }
    this.ready = true;
    // Loaded last, since chat does not need it.
    if (!this.problem)
      await Promise.all([
        this.try(() => this.links.start()),
        this.try(() => this.tune.start(place?.tune)),
        this.try(() => this.modelsPage.start()),
        this.try(() => this.presets.load()),
        this.try(() => this.prompts.load()),
      ]);
    this.started = this.problem === null;
  }

  /** Opens the place that a reload of the page left. */
  private async returnTo({ view, conversation, folder, settingsPage, modelsTab }: Place): Promise<void> {
    this.view = view;
    this.settingsPage = settingsPage;
    this.modelsPage.tab = modelsTab;
    if (conversation !== null && this.conversations.get(conversation)) await this.thread.open(conversation);
    else if (this.folders.get(folder)) this.thread.startNew(folder);
  }

  /** Stores the place for a reload of the page. Reads all of it first, for effects to track. */
  rememberPlace(): void {
    const { view, settingsPage, thread, modelsPage, tune } = this;
    const place: Place = {
      view,
      settingsPage,
      conversation: thread.id,
      folder: thread.folder,
      modelsTab: modelsPage.tab,
      tune: tune.place,
    };
    if (this.started) writePlace(this.session, place);
  }

  handle(event: Announced): void {
    const { live } = this.thread;
    const wasActive = event.type === "messageChanged" && live.isActive(event.message.id);
    if (event.type === "conversationRemoved" && event.id === this.thread.id) this.compare.on = false;
    // Its text grows once.
    if (event.type === "messageDelta" || event.type === "messageFolded") this.thread.handle(event);
    else this.reading.handle(event);
    this.search.handle(event);
    this.transfer.handle(event);
    this.exports.handle(event);
    this.presets.handle(event);
    this.prompts.handle(event);
    this.machine.handle(event);
    this.catalog.handle(event);
    this.hub.handle(event);
    this.downloads.handle(event);
    this.updates.handle(event);
    this.modelsPage.handle(event);
    this.datasets.handle(event);
    this.runs.handle(event);
    this.adapters.handle(event);
    this.tune.handle(event);
    this.links.handle(event);
    void this.notifications.handle(event).catch(() => {
      // The window shows the same problem.
    });
    // Not of an older answer that was rated, nor of the first of those that are compared.
    if (event.type === "messageChanged" && wasActive && !live.busy.has(event.message.conversation))
      void this.try(() => this.queue.ended(event.message));
    if (event.type === "closing") this.closing = event.run;
    if (event.type === "storeLocked") {
      if (event.locked) this.toasts.show({ kind: "problem", text: m.store_locked() });
      else {
        this.unsent.retry();
        // The problem is over.
        this.toasts.withdraw(m.store_locked());
        this.toasts.show({ kind: "note", text: m.store_unlocked() });
      }
    }
  }

  /**
   * The folder of the open conversation; for a new conversation, the folder that it will be created
   * in.
   */
  readonly folder: Folder | null = $derived.by(() =>
    this.folders.get(this.thread.id === null ? this.thread.folder : this.conversations.get(this.thread.id)?.folder),
  );

  /** Address of the hub, unless the settings name another one. */
  private defaultHub = $state("https://huggingface.co");

  /** The displayed host name of the hub. */
  readonly hubName: string = $derived.by(() =>
    (this.settings.value.hubEndpoint ?? this.defaultHub).replace(/^https?:\/\//, "").replace(/\/$/, ""),
  );

  /**
   * The model that answers in the open conversation: its own, its folder's, or the selected one.
   */
  readonly chatModel: Model | null = $derived.by(() => {
    const own = this.thread.settings.model ?? this.folder?.settings.model ?? null;
    return (own === null ? null : this.models.all.find(({ id }) => id === own)) ?? this.models.current;
  });

  /** The state of the model that answers in the open conversation. */
  readonly chatState: ModelState = $derived.by(() => this.models.stateOf(this.chatModel?.id ?? null));

  /**
   * Loads a model and selects it for all conversations that choose none, the open one included. In
   * a folder with another model, the open conversation chooses it too.
   */
  async chooseModel(model: string): Promise<void> {
    const { thread } = this;
    const ofFolder = this.folder?.settings.model ?? null;
    const own = ofFolder === null || ofFolder === model ? null : model;
    if (thread.settings.model !== own) await thread.setSettings({ ...thread.settings, model: own });
    await this.models.load(model);
  }

  /** Chooses the model of the open conversation only; `null` means the selected one. */
  async chooseOwnModel(model: string | null): Promise<void> {
    await this.thread.setSettings({ ...this.thread.settings, model });
  }

  /** Default sampling parameters of a model, overridden by the user's defaults for it. */
  defaultsOf(model: Model | null): SamplingParams | null {
    return model && withOverrides(model.sampling, this.settings.value.sampling[model.id]);
  }

  /** Default sampling parameters of the model of the open conversation. */
  readonly modelDefaults: SamplingParams | null = $derived(this.defaultsOf(this.chatModel));

  /**
   * Default sampling parameters in the open conversation: the model's, overridden by the folder's.
   */
  readonly chatDefaults: SamplingParams | null = $derived(
    this.modelDefaults && withOverrides(this.modelDefaults, this.folder?.settings.sampling),
  );

  /** Shows all settings of a conversation or only the simple ones, and stores the choice. */
  showAdvanced(all: boolean): void {
    this.chatAdvanced = all;
    try {
      this.storage?.setItem(ADVANCED, all ? "1" : "0");
    } catch {
      // If the storage is full, the choice is lost at the next start.
    }
  }

  /** Restarts Hearth, after a confirmation if there are unfinished edits. */
  async restart(): Promise<void> {
    this.confirmsRestart = this.edits.changed && !this.confirmsRestart;
    if (!this.confirmsRestart) await this.try(() => this.host.restart());
  }

  /** Opens a page of Settings; by default the last open page. */
  openSettings(page: SettingsPage = this.settingsPage): void {
    this.view = "settings";
    this.settingsPage = page;
  }

  /** Runs an action of the table. Does nothing if the action is unavailable. */
  async act(action: Action): Promise<void> {
    if (action.enabled?.(this) ?? true) await this.try(async () => action.run(this));
  }

  async focusSearch(): Promise<void> {
    this.view = "chat";
    // A list that is mounted closes itself first.
    await tick();
    this.listOpen = true;
    await tick();
    this.fields.search?.focus();
    this.fields.search?.select();
  }

  /** Shows the results of a filter instead of the list of conversations. */
  async filter(filter: Partial<SearchFilter>): Promise<void> {
    this.search.only(filter);
    await this.focusSearch();
  }

  async findInConversation(): Promise<void> {
    this.view = "chat";
    await tick();
    await this.fields.find?.();
  }

  async focusComposer(): Promise<void> {
    this.view = "chat";
    await tick();
    this.fields.composer?.focus();
  }

  /** Opens the panel of the conversation's settings at its system prompt. */
  async editSystemPrompt(): Promise<void> {
    this.chatSettings = true;
    await tick();
    this.fields.prompt?.focus();
  }

  /** Inserts a saved prompt into the composer, once its variables have values. */
  async insertPrompt(prompt: SavedPrompt): Promise<void> {
    if (variables(prompt.text).length > 0) this.dialog = { for: "variables", prompt };
    else await this.insertText(prompt.text);
  }

  /** Inserts a text into the composer: replaces a typed `/name`, or is appended to the draft. */
  async insertText(text: string): Promise<void> {
    const id = this.thread.id;
    const typed = this.drafts.get(id);
    this.drafts.set(id, typed.trim() === "" || commandIn(typed) !== null ? text : `${typed}\n${text}`);
    await this.focusComposer();
    const { composer } = this.fields;
    composer?.setSelectionRange(composer.value.length, composer.value.length);
  }

  /** Starts a conversation, and ends comparison. */
  newConversation(folder: number | null = null): void {
    this.view = "chat";
    this.thread.startNew(folder);
    this.compare.on = false;
    // The list may cover the composer.
    this.listOpen = false;
    void this.focusComposer();
  }

  /** Asks for the name of a new folder, in the list. */
  async nameFolder(): Promise<void> {
    this.view = "chat";
    this.search.clear();
    // A list that is mounted closes itself first.
    await tick();
    this.listOpen = true;
    await tick();
    this.edits.begin("folder:new", "");
  }

  /** Renames the open conversation, in the list. */
  async renameOpen(): Promise<void> {
    const open = this.conversations.get(this.thread.id);
    if (!open) return;
    // A row that is found or folded away has no field for its name.
    this.search.clear();
    if (open.folder !== null) this.folders.open(open.folder, true);
    this.listOpen = true;
    await tick();
    this.edits.begin(`conversation:${open.id}`, open.title);
  }

  async moveConversation(id: number, folder: number | null): Promise<boolean> {
    return this.try(async () => {
      await this.conversations.move(id, folder);
      const title = this.conversations.title(id) ?? m.store_conversation();
      const name = this.folders.get(folder)?.name ?? null;
      this.announcements.say(name === null ? m.folder_moved_out({ title }) : m.folder_moved({ title, folder: name }));
    });
  }

  /** Deletes a folder; its conversations stay. */
  async removeFolder({ id, name }: Folder): Promise<void> {
    await this.try(async () => {
      await this.host.deleteFolder(id);
      const undo = () => void this.try(() => this.host.restoreFolder(id));
      this.toasts.show({
        kind: "note",
        text: m.folder_deleted({ name }),
        action: { label: m.store_undo(), run: undo },
      });
    });
  }

  /** Opens a conversation. Comparison ends, unless it is open already. */
  async open(id: number, message: number | null = null): Promise<void> {
    this.view = "chat";
    if (id === this.thread.id && message === null) return;
    if (id !== this.thread.id) this.compare.on = false;
    await this.thread.open(id, message);
  }

  /** Sends a message with the added files. If that fails, both are put back into the draft. */
  async send(text: string): Promise<void> {
    const from = this.thread.id;
    const files = this.attachments.get(from);
    const sending = this.unsent.send(() => this.sendHere(text, files));
    this.drafts.set(from, "");
    this.attachments.set(from, []);
    try {
      const sent = await sending;
      this.conversations.add(sent.conversation);
      if (from === null && this.thread.id === sent.conversation.id) this.moveDraft(sent.conversation.id);
    } catch (error) {
      this.putBack(from, { files }, text, this.drafts.get(from));
      this.showError(error);
    }
  }

  /**
   * Moves text and files that were added while the first message of a conversation was sent into
   * that conversation.
   */
  private moveDraft(conversation: number): void {
    const [text, files] = [this.drafts.get(null), this.attachments.get(null)];
    if (text === "" && files.length === 0) return;
    this.drafts.set(conversation, text);
    this.attachments.put(conversation, files);
    this.drafts.set(null, "");
    this.attachments.put(null, []);
  }

  /** Queues a message until the answer in progress is complete. */
  queueMessage(conversation: number, text: string): void {
    if (this.queue.of(conversation).length >= MAX_QUEUED)
      return this.toasts.show({ kind: "problem", text: m.chat_queued_full({ most: MAX_QUEUED }) });
    this.queue.add(conversation, text, this.attachments.get(conversation));
    this.drafts.set(conversation, "");
    this.attachments.set(conversation, []);
    this.announcements.say(m.chat_queued_said());
  }

  /** Moves a queued message back into the composer, after the draft. */
  async editQueued(conversation: number, id: number): Promise<void> {
    const queued = this.queue.of(conversation).find((message) => message.id === id);
    // Checked before the message is removed from the queue, since too many files are refused.
    if (queued) this.attachments.check([...queued.files, ...this.attachments.get(conversation)]);
    const message = this.queue.take(conversation, id);
    if (!message) return;
    this.putBack(conversation, message, this.drafts.get(conversation), message.text);
    await this.focusComposer();
  }

  /** Removes a queued message, with a way back to the end of the queue. */
  removeQueued(conversation: number, id: number): void {
    const message = this.queue.take(conversation, id);
    if (!message) return;
    const undo = () => this.queue.add(conversation, message.text, message.files);
    this.toasts.show({ kind: "note", text: m.chat_queued_removed(), action: { label: m.store_undo(), run: undo } });
  }

  /** Sends a message after `parent`, also in a conversation that is not open. */
  private async sendQueued(conversation: number, parent: number | null, { text, files }: Queued): Promise<void> {
    const isOpen = this.thread.id === conversation && !this.thread.opening;
    const sent = await this.unsent.send<Sent | Compared>(() =>
      isOpen ? this.sendHere(text, files, parent) : this.host.send(conversation, parent, text, files, defaultBeginning),
    );
    this.conversations.add(sent.conversation);
  }

  /**
   * Sends a message in the open conversation, compared if that is switched on; `null` means after
   * the open branch.
   */
  private async sendHere(text: string, files: TextFile[], parent: number | null = null): Promise<Sent | Compared> {
    return this.compare.isReady
      ? this.thread.compare(this.compare.answers, text, files, parent)
      : this.thread.send(text, files, parent);
  }

  /** Applies the model, settings and adapters of a compared answer to the open conversation. */
  async applyAnswer({ overrides, adapters }: Message, name: string): Promise<void> {
    const { thread } = this;
    const { id, settings, systemPrompt } = thread;
    await this.try(async () => {
      const present = { settings: { ...settings, model: overrides?.model ?? settings.model }, systemPrompt };
      const changed = overrides?.preset ? this.presets.with(overrides.preset, present) : present;
      await thread.setSettings(changed.settings);
      if (thread.id === id && changed.systemPrompt !== systemPrompt) await thread.setSystemPrompt(changed.systemPrompt);
      if (thread.id === id) await thread.setAdapters(adapters.map(({ adapter, scale }) => ({ adapter, scale })));
      this.compare.on = false;
      this.toasts.show({ kind: "note", text: m.store_contender_used({ name }) });
    });
  }

  /** Makes a message that is not sent the draft of its conversation again, with its files. */
  private putBack(conversation: number | null, { files }: Pick<Queued, "files">, ...texts: string[]): void {
    this.drafts.set(conversation, texts.filter((text) => text !== "").join("\n"));
    // Too many files are refused when they are sent.
    this.attachments.put(conversation, [...files, ...this.attachments.get(conversation)]);
  }

  private fillUnsent(conversation: number | null, { text, files, queue }: Unsent): void {
    this.unsent.learn(conversation, () => {
      this.drafts.fill(conversation, text);
      this.attachments.fill(conversation, files);
      if (conversation !== null) this.queue.fill(conversation, queue);
    });
  }

  async remove(id: number): Promise<void> {
    const title = this.conversations.title(id) ?? m.store_conversation();
    await this.try(async () => {
      await this.conversations.remove(id);
      if (this.thread.id === id) {
        this.thread.startNew();
        this.compare.on = false;
      }
      this.toasts.show({
        kind: "note",
        text: m.store_deleted({ name: title }),
        action: { label: m.store_undo(), run: () => void this.restore(id) },
      });
    });
  }

  async restore(id: number): Promise<void> {
    await this.try(async () => {
      await this.host.restoreConversation(id);
      await this.open(id);
    });
  }

  /** Opens a new conversation with a copy of the branch up to a message of the open one. */
  async branchOff(message: number): Promise<void> {
    const title = branchTitle(
      this.conversations.title(this.thread.id) ?? m.store_conversation(),
      this.conversations.all.map((other) => other.title),
    );
    await this.try(async () => {
      const branch = await this.host.branchOff(message, title);
      this.conversations.add(branch);
      await this.open(branch.id);
      await this.focusComposer();
    });
  }

  /** Imports an export that was dropped on the window. */
  async importDropped(path: string): Promise<void> {
    await this.try(async () => {
      this.toasts.show({ kind: "note", text: m.store_importing() });
      const report = await this.transfer.import(path);
      if (report) this.toasts.show({ kind: "note", text: importSentences(report).join(" ") });
    });
  }

  async exportConversation(id: number, format: ChatFormat): Promise<void> {
    await this.try(async () => {
      const exported = await this.transfer.export(
        id,
        format,
        this.conversations.title(id) ?? m.store_conversation_file(),
      );
      if (exported) this.toasts.show({ kind: "note", text: m.store_written({ path: exported.path }) });
    });
  }

  /** Changes settings that affect the memory plan, and plans again. */
  async changeSettings(change: Partial<Settings>): Promise<void> {
    await this.try(async () => {
      await this.settings.change(change);
      await this.planning.refresh();
    });
  }

  /** Checks a device; the result may change the automatic choice. */
  async checkDevice({ identity, name }: Device): Promise<void> {
    if (!(await this.machine.check(identity))) return;
    this.announcements.say(m.store_checked({ device: name }));
    await this.planning.refresh();
  }

  async openLink(address: string): Promise<void> {
    await this.try(() => this.host.openLink(address));
  }

  /** Copies a text unless it is empty, and announces it. */
  async copy(text: string): Promise<void> {
    if (text !== "" && (await this.try(() => navigator.clipboard.writeText(text))))
      this.announcements.say(m.chat_copied());
  }

  /** Runs an action; shows its error and returns `false` if it fails. */
  async try(action: () => Promise<unknown>): Promise<boolean> {
    try {
      await action();
      return true;
    } catch (error) {
      this.showError(error);
      return false;
    }
  }

  private showError(error: unknown): void {
    const problem = asProblem(error);
    const text = problemText(problem);
    // A cancellation by the user is not an error.
    if (problem.code === "cancelled") this.toasts.show({ kind: "note", text });
    else if (problem.code === "updated") {
      this.toasts.withdraw(text);
      this.toasts.show({ kind: "problem", text, action: { label: m.shell_restart(), run: () => void this.restart() } });
    } else this.toasts.show({ kind: "problem", text });
  }
}

const KEY = Symbol("app");

export function provideApp(app: App): App {
  return setContext(KEY, app);
}

export function useApp(): App {
  return getContext<App>(KEY);
}
