// Getting models on the fake host: the catalog, the hub, and downloads that progress with the pace. A download whose
// source has "fails" fails at 40 % the first time; one with "stalls" receives nothing more after 30 %.

import { fileName } from "../../text/source";
import type {
  CatalogModel,
  Device,
  Download,
  HubKind,
  HubModel,
  HubRepository,
  HubSort,
  HubToken,
  KeychainState,
  LoadSettings,
  Model,
  ModelUpdate,
  Plan,
  Problem,
  RemoteModel,
  UpdateState,
} from "../wire";
import { catalogOf, entryOf } from "./catalog";
import { adapterBaseOf, conversionsOf, remoteOf, repositoryOf, searchOf, variantOf } from "./hub";
import { qwen } from "./models";
import { downloadedAdapter } from "./runs";
import { FakeTuning } from "./tuning";

const STEPS = 40;
/** Downloads at the same time. */
const AT_ONCE = 2;
const BYTES_PER_SECOND = 14_200_000;

const AUTOMATIC: LoadSettings = {
  threads: null,
  context: null,
  device: null,
  build: null,
  gpuLayers: { type: "auto" },
  kv: "f16",
  draft: { type: "auto" },
};

const OFFLINE: Problem = {
  code: "offline",
  message: "Searches and downloads are switched off. Switch Offline off in Settings, then try again.",
};
const NO_DOWNLOAD: Problem = { code: "notFound", message: "This download is no longer in the list." };
const UNREACHABLE: Problem = {
  code: "network",
  message: "huggingface.co cannot be reached: the name could not be resolved. Check the connection, then try again.",
};
const NO_TOKEN: Problem = {
  code: "badRequest",
  message: "This is no token. A token is one word, like those at huggingface.co/settings/tokens, which begin with hf_.",
};
const KEYCHAIN_LOCKED: Problem = {
  code: "keychain",
  message:
    "The system's keychain is locked or refuses access. Unlock it and try again, or set the environment variable HF_TOKEN to the token and start Hearth again.",
};
const KEYCHAIN_MISSING: Problem = {
  code: "keychain",
  message:
    "This system has no keychain, so Hearth cannot save the token; it is never written to a file. Set the environment variable HF_TOKEN to the token, and start Hearth again.",
};
const CUT: Problem = {
  code: "network",
  message: "The connection was closed at 40 %, three times. What was received is on disk: try again to continue there.",
};

export abstract class FakeGetting extends FakeTuning {
  /** For tests: every request to the hub, newest last. */
  requests: string[] = [];
  /** For tests: whether the hub cannot be reached. */
  unreachable = false;
  /** For tests: the source of a hub token outside the keychain, and the state of the keychain. */
  tokenElsewhere: "environment" | "file" | null = null;
  keychain: KeychainState = "empty";
  /** For tests: what servers say of downloaded models, by their source; of the others, that they have a new version. */
  readonly serverStates = new Map<string, UpdateState>();
  private readonly updated = new Set<string>();
  private downloadList: Download[] = [];
  private readonly failed = new Set<number>();

  protected abstract get devicesNow(): readonly Device[];
  protected abstract get modelsNow(): readonly Model[];
  protected abstract get isOffline(): boolean;
  /** The hub of the settings. */
  protected abstract get hubEndpoint(): string | null;
  protected abstract arrived(model: Model): void;
  abstract plan(model: string, load: LoadSettings): Promise<Plan>;

  /** The initial downloads of a scene. */
  protected fillDownloads(downloads: Download[]): void {
    this.downloadList = downloads;
    for (const { id, state } of downloads) if (state.type === "running") void this.receive(id);
  }

  async catalog(): Promise<CatalogModel[]> {
    return catalogOf(this.devicesNow, this.modelsNow);
  }

  async searchHub(query: string, sort: HubSort, kind: HubKind): Promise<HubModel[]> {
    await this.request(`search ${query} ${sort}${kind === "models" ? "" : ` ${kind}`}`);
    return searchOf(query, sort, kind, this.devicesNow);
  }

  async hubConversions(id: string): Promise<HubModel[]> {
    await this.request(`conversions ${id}`);
    return conversionsOf(id, this.devicesNow);
  }

  async hubRepository(id: string): Promise<HubRepository> {
    await this.request(`repository ${id}`);
    return repositoryOf(id, this.devicesNow, this.modelsNow, await this.adapters());
  }

  async inspectRemote(source: string): Promise<RemoteModel> {
    await this.request(`inspect ${source}`);
    const plan = await this.plan(this.modelsNow[0]?.id ?? "", AUTOMATIC);
    return remoteOf(source, this.devicesNow, { ...plan, tokensPerSecond: 23.4 });
  }

  async downloads(): Promise<Download[]> {
    return this.downloadList;
  }

  async startDownload(source: string): Promise<Download> {
    if (this.isOffline) throw OFFLINE;
    const known = this.downloadList.find((one) => one.source === source && one.state.type !== "done");
    if (known) {
      await this.resumeDownload(known.id);
      return this.download(known.id);
    }
    const entry = entryOf(source);
    const found = variantOf(source, this.devicesNow);
    const former = this.modelsNow.find(({ downloadedFrom }) => downloadedFrom === source);
    if (!entry && !found && !former && !/^ollama:\/\/|\.gguf(?:[?#]|$)/i.test(source))
      throw {
        code: "notFound",
        message: `There is no model at ${source}. Check the address: it may be a repository of the hub, a GGUF file, or ollama://NAME.`,
      };
    const name =
      entry?.name ??
      former?.name ??
      (found?.variant.isAdapter
        ? fileName(found.repository.id)
        : found
          ? `${(found.repository.id.split("/")[1] ?? "").replace(/-gguf$/i, "")} ${found.variant.name}`
          : fileName(source));
    const download: Download = {
      id: this.newId(),
      name,
      source,
      done: 0,
      total: entry?.fileSize ?? found?.variant.size ?? former?.fileSize ?? null,
      bytesPerSecond: 0,
      resumes: !/^https?:/i.test(source),
      state: { type: "queued" },
    };
    this.downloadList = [download, ...this.downloadList];
    this.emitDownloads();
    this.next();
    return download;
  }

  async pauseDownload(id: number): Promise<void> {
    this.set(id, { state: { type: "paused" }, bytesPerSecond: 0 });
    this.next();
  }

  async resumeDownload(id: number): Promise<void> {
    if (this.isOffline) throw OFFLINE;
    const { type } = this.download(id).state;
    if (type !== "paused" && type !== "failed") return;
    this.set(id, { state: { type: "queued" } });
    this.next();
  }

  async removeDownload(id: number): Promise<void> {
    this.downloadList = this.downloadList.filter((one) => one.id !== id);
    this.emitDownloads();
    this.next();
  }

  async checkUpdates(): Promise<ModelUpdate[]> {
    await this.request("updates");
    const downloaded = this.modelsNow.flatMap(({ id, downloadedFrom, source: owner }) =>
      downloadedFrom === null || owner !== "catalog" ? [] : [{ id, source: downloadedFrom }],
    );
    return downloaded.map(({ id, source }) => ({
      model: id,
      source,
      state: this.updated.has(source) ? { type: "current" } : (this.serverStates.get(source) ?? { type: "available" }),
    }));
  }

  async hubToken(): Promise<HubToken> {
    const own = this.keychain === "saved" ? "keychain" : null;
    const source = this.tokenElsewhere === "environment" ? this.tokenElsewhere : (own ?? this.tokenElsewhere);
    return { source, isSent: source !== null && this.hubEndpoint === null, keychain: this.keychain };
  }

  async setHubToken(token: string): Promise<HubToken> {
    if (!/^\s*[!-~]{1,1024}\s*$/.test(token)) throw NO_TOKEN;
    this.useKeychain();
    this.keychain = "saved";
    return this.hubToken();
  }

  async removeHubToken(): Promise<HubToken> {
    this.useKeychain();
    this.keychain = "empty";
    return this.hubToken();
  }

  private useKeychain(): void {
    if (this.keychain === "missing") throw KEYCHAIN_MISSING;
    if (this.keychain === "locked") throw KEYCHAIN_LOCKED;
  }

  async chooseModelFolder(): Promise<string | null> {
    return "/home/you/more-models";
  }

  private async request(what: string): Promise<void> {
    if (this.isOffline) throw OFFLINE;
    this.requests.push(what);
    await this.rest(12);
    if (this.unreachable) throw UNREACHABLE;
  }

  private download(id: number): Download {
    const found = this.downloadList.find((one) => one.id === id);
    if (!found) throw NO_DOWNLOAD;
    return found;
  }

  private set(id: number, change: Partial<Download>): void {
    this.download(id);
    this.downloadList = this.downloadList.map((one) => (one.id === id ? { ...one, ...change } : one));
    this.emitDownloads();
  }

  private emitDownloads(): void {
    this.emit({ type: "downloadsChanged", downloads: this.downloadList });
  }

  /** Starts the oldest that waits, if there is room. */
  private next(): void {
    const running = this.downloadList.filter(({ state }) => state.type === "running").length;
    const waiting = this.downloadList.findLast(({ state }) => state.type === "queued");
    if (running >= AT_ONCE || !waiting) return;
    this.set(waiting.id, { state: { type: "running" } });
    void this.receive(waiting.id);
    this.next();
  }

  private isRunning(id: number): boolean {
    return this.downloadList.some((one) => one.id === id && one.state.type === "running");
  }

  private async receive(id: number): Promise<void> {
    await this.rest(2);
    if (!this.isRunning(id)) return;
    const { source, total: known } = this.download(id);
    const total = known ?? 1_321_082_688;
    while (this.isRunning(id) && this.download(id).done < total) {
      await this.rest(4);
      if (!this.isRunning(id)) return;
      const { done } = this.download(id);
      const stalls = /stalls/.test(source) && done >= 0.3 * total;
      if (/fails/.test(source) && done >= 0.4 * total && !this.failed.has(id)) {
        this.failed.add(id);
        this.set(id, { state: { type: "failed", problem: CUT }, bytesPerSecond: 0 });
        return this.next();
      }
      const progress = {
        done: stalls ? done : Math.min(total, Math.round(done + total / STEPS)),
        total,
        bytesPerSecond: stalls ? 0 : BYTES_PER_SECOND,
      };
      if (!stalls || this.download(id).bytesPerSecond > 0) {
        this.downloadList = this.downloadList.map((one) => (one.id === id ? { ...one, ...progress } : one));
        this.emit({ type: "downloadProgress", id, ...progress });
      }
      if (stalls) await this.rest(40);
    }
    if (!this.isRunning(id)) return;
    this.set(id, { state: { type: "checking" }, bytesPerSecond: 0 });
    await this.rest(6);
    if (!this.downloadList.some((one) => one.id === id)) return;
    const download = this.download(id);
    const former = this.modelsNow.find(({ downloadedFrom }) => downloadedFrom === download.source);
    if (former) {
      this.updated.add(download.source);
      this.set(id, { state: { type: "done", model: former.id, adapter: null } });
      return this.next();
    }
    const base = adapterBaseOf(download.source);
    if (base !== null) {
      const adapter = downloadedAdapter(this.newId(), download.name, download.source, base);
      await this.addAdapter(adapter);
      this.set(id, { state: { type: "done", model: null, adapter: adapter.id } });
      return this.next();
    }
    const model = downloaded(this.download(id), this.devicesNow);
    this.arrived(model);
    this.set(id, { state: { type: "done", model: model.id, adapter: null } });
    this.next();
  }
}

/** The model of a download. */
function downloaded({ name, source, total }: Download, devices: readonly Device[]): Model {
  const entry = entryOf(source);
  const found = variantOf(source, devices);
  return {
    ...qwen,
    id: entry?.id ?? `file-${name}`,
    name,
    path: `/home/you/.local/share/hearth/models/${found?.variant.file ?? `${name.replaceAll(" ", "-")}.gguf`}`,
    fileSize: total ?? qwen.fileSize,
    architecture: found?.repository.architecture ?? "llama",
    quantization: entry?.quantization ?? found?.variant.name ?? "Q4_K_M",
    parameters: found?.repository.parameters ?? Math.round((total ?? qwen.fileSize) / 0.62),
    contextTrained: found?.repository.context ?? 32_768,
    description: entry?.description ?? "",
    source: "catalog",
    license: entry?.license ?? found?.repository.license ?? null,
    downloadedFrom: source,
    isDeletable: true,
  };
}
