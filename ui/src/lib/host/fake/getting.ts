// The catalog, the hub and downloads of the fake host. Downloads progress with its pace. A download
// whose source has "fails" fails at 40 % the first time; one with "stalls" receives nothing more
// after 30 %. While the hub is `unreachable`, a download waits until it is resumed.

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
import { problem } from "./problems";
import { downloadedAdapter } from "./runs";
import { FakeTuning } from "./tuning";

const STEPS = 40;
/** Downloads at the same time. */
const AT_ONCE = 2;
const BYTES_PER_SECOND = 14_200_000;
/** Time to the next attempt of a download whose connection failed, in milliseconds. */
const RETRY_MS = 50_000;

const AUTOMATIC: LoadSettings = {
  threads: null,
  context: null,
  device: null,
  build: null,
  gpuLayers: { type: "auto" },
  kv: "f16",
  draft: { type: "auto" },
};

const OFFLINE = problem("download", { area: "models", type: "offlineBySetting" });
const NO_DOWNLOAD = problem("notFound", { area: "models", type: "downloadRemoved" });
const NO_TOKEN = problem("badRequest", { area: "models", type: "notAToken" });
const KEYCHAIN_LOCKED = problem("keychain", { area: "models", type: "keychainLocked" });
const KEYCHAIN_MISSING = problem("keychain", { area: "models", type: "keychainMissing" });

/**
 * The host name of the hub cannot be resolved; `item` is the requested item, or `null` for a
 * search.
 */
function unreachable(item: string | null): Problem {
  const fetchFailure = { type: "hostNotFound" } as const;
  return item === null
    ? problem("download", { area: "models", type: "searchFailed", fetchFailure })
    : problem("download", { area: "models", type: "requestFailed", item, fetchFailure });
}

/** The connection broke during a download. */
function connectionLost({ name, source }: Download): Problem {
  return problem("download", {
    area: "models",
    type: "downloadFailed",
    name,
    url: `https://huggingface.co/${source}`,
    fetchFailure: { type: "broken", detail: "Connection reset by peer (os error 104)" },
    kept: { type: "resumes" },
  });
}

export abstract class FakeGetting extends FakeTuning {
  /** For tests: every request to the hub, newest last. */
  requests: string[] = [];
  /** For tests: whether the hub cannot be reached. */
  unreachable = false;
  /** For tests: whether other programs slowed the measurement of this machine down. */
  wasBusy = false;
  /** For tests: the source of a hub token outside the keychain, and the state of the keychain. */
  tokenElsewhere: "environment" | "file" | null = null;
  keychain: KeychainState = "empty";
  /**
   * For tests: update states of downloaded models by source. All other models have a new version.
   */
  readonly serverStates = new Map<string, UpdateState>();
  private readonly updated = new Set<string>();
  private downloadList: Download[] = [];
  private readonly failed = new Set<number>();

  protected abstract get devicesNow(): readonly Device[];
  protected abstract get modelsNow(): readonly Model[];
  protected abstract get isOffline(): boolean;
  /** The hub of the settings. */
  protected abstract get hubEndpoint(): string | null;
  protected abstract addDownloadedModel(model: Model): void;
  abstract plan(model: string, load: LoadSettings): Promise<Plan>;

  /** The initial downloads of a scene. */
  protected fillDownloads(downloads: Download[]): void {
    this.downloadList = downloads;
    for (const { id, state } of downloads) if (state.type === "running") void this.receive(id);
  }

  async catalog(): Promise<CatalogModel[]> {
    if (this.wasBusy) await this.rest();
    return catalogOf(this.devicesNow, this.modelsNow, this.wasBusy);
  }

  /** For tests: measures the machine again, which is idle now. */
  measureIdle(): void {
    this.wasBusy = false;
    this.emit({ type: "devicesMeasured" });
  }

  async searchHub(query: string, sort: HubSort, kind: HubKind): Promise<HubModel[]> {
    await this.request(`search ${query} ${sort}${kind === "models" ? "" : ` ${kind}`}`, null);
    return searchOf(query, sort, kind, this.devicesNow);
  }

  async hubConversions(id: string): Promise<HubModel[]> {
    await this.request(`conversions ${id}`, id);
    return conversionsOf(id, this.devicesNow);
  }

  async hubRepository(id: string): Promise<HubRepository> {
    await this.request(`repository ${id}`, id);
    return repositoryOf(id, this.devicesNow, this.modelsNow, await this.adapters());
  }

  async inspectRemote(source: string): Promise<RemoteModel> {
    await this.request(`inspect ${source}`, source);
    const plan = await this.plan(this.modelsNow[0]?.id ?? "", AUTOMATIC);
    return remoteOf(source, this.devicesNow, { ...plan, tokensPerSecond: 23.4 });
  }

  async downloads(): Promise<Download[]> {
    return this.downloadList;
  }

  async startDownload(source: string): Promise<Download> {
    if (this.isOffline) throw OFFLINE;
    const existing = this.downloadList.find((download) => download.source === source && download.state.type !== "done");
    if (existing) {
      await this.resumeDownload(existing.id);
      return this.download(existing.id);
    }
    const entry = entryOf(source);
    const match = variantOf(source, this.devicesNow);
    const former = this.modelsNow.find(({ downloadedFrom }) => downloadedFrom === source);
    if (!entry && !match && !former && !/^ollama:\/\/|\.gguf(?:[?#]|$)/i.test(source))
      throw problem("badRequest", { area: "models", type: "badReference", reference: source });
    const name =
      entry?.name ??
      former?.name ??
      (match?.variant.isAdapter
        ? fileName(match.repository.id)
        : match
          ? `${(match.repository.id.split("/")[1] ?? "").replace(/-gguf$/i, "")} ${match.variant.name}`
          : fileName(source));
    const download: Download = {
      id: this.newId(),
      name,
      source,
      done: 0,
      total: entry?.fileSize ?? match?.variant.size ?? former?.fileSize ?? null,
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
    if (type !== "paused" && type !== "failed" && type !== "waiting") return;
    this.set(id, { state: { type: "queued" } });
    this.next();
  }

  async removeDownload(id: number): Promise<void> {
    this.downloadList = this.downloadList.filter((download) => download.id !== id);
    this.emitDownloads();
    this.next();
  }

  async checkUpdates(): Promise<ModelUpdate[]> {
    await this.request("updates", "huggingface.co");
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

  /** Requests an item, or with `null` a search. */
  private async request(what: string, item: string | null): Promise<void> {
    if (this.isOffline) throw OFFLINE;
    this.requests.push(what);
    await this.rest(12);
    if (this.unreachable) throw unreachable(item);
  }

  private download(id: number): Download {
    const download = this.downloadList.find((candidate) => candidate.id === id);
    if (!download) throw NO_DOWNLOAD;
    return download;
  }

  private set(id: number, change: Partial<Download>): void {
    this.download(id);
    this.downloadList = this.downloadList.map((download) =>
      download.id === id ? { ...download, ...change } : download,
    );
    this.emitDownloads();
  }

  private emitDownloads(): void {
    this.emit({ type: "downloadsChanged", downloads: this.downloadList });
  }

  /** Starts the oldest queued download if fewer than `AT_ONCE` run. */
  private next(): void {
    const running = this.downloadList.filter(({ state }) => state.type === "running").length;
    const waiting = this.downloadList.findLast(({ state }) => state.type === "queued");
    if (running >= AT_ONCE || !waiting) return;
    this.set(waiting.id, { state: { type: "running" } });
    void this.receive(waiting.id);
    this.next();
  }

  private isRunning(id: number): boolean {
    return this.downloadList.some((download) => download.id === id && download.state.type === "running");
  }

  private async receive(id: number): Promise<void> {
    await this.rest(2);
    if (!this.isRunning(id)) return;
    const { name, source, total: knownTotal } = this.download(id);
    if (this.unreachable) {
      const state = { type: "waiting", problem: unreachable(name), retryAt: Date.now() + RETRY_MS } as const;
      this.set(id, { state, bytesPerSecond: 0 });
      return this.next();
    }
    const total = knownTotal ?? 1_321_082_688;
    while (this.isRunning(id) && this.download(id).done < total) {
      await this.rest(4);
      if (!this.isRunning(id)) return;
      const { done } = this.download(id);
      const stalls = /stalls/.test(source) && done >= 0.3 * total;
      if (/fails/.test(source) && done >= 0.4 * total && !this.failed.has(id)) {
        this.failed.add(id);
        this.set(id, { state: { type: "failed", problem: connectionLost(this.download(id)) }, bytesPerSecond: 0 });
        return this.next();
      }
      const progress = {
        done: stalls ? done : Math.min(total, Math.round(done + total / STEPS)),
        total,
        bytesPerSecond: stalls ? 0 : BYTES_PER_SECOND,
      };
      if (!stalls || this.download(id).bytesPerSecond > 0) {
        this.downloadList = this.downloadList.map((download) =>
          download.id === id ? { ...download, ...progress } : download,
        );
        this.emit({ type: "downloadProgress", id, ...progress });
      }
      if (stalls) await this.rest(40);
    }
    if (!this.isRunning(id)) return;
    this.set(id, { state: { type: "checking" }, bytesPerSecond: 0 });
    await this.rest(6);
    if (!this.downloadList.some((download) => download.id === id)) return;
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
    this.addDownloadedModel(model);
    this.set(id, { state: { type: "done", model: model.id, adapter: null } });
    this.next();
  }
}

/** The model of a download. */
function downloaded({ name, source, total }: Download, devices: readonly Device[]): Model {
  const entry = entryOf(source);
  const match = variantOf(source, devices);
  return {
    ...qwen,
    id: entry?.id ?? `file-${name}`,
    name,
    path: `/home/you/.local/share/hearth/models/${match?.variant.file ?? `${name.replaceAll(" ", "-")}.gguf`}`,
    fileSize: total ?? qwen.fileSize,
    architecture: match?.repository.architecture ?? "llama",
    checkedWithRealFile: (match?.repository.architecture ?? "llama") === "llama",
    quantization: entry?.quantization ?? match?.variant.name ?? "Q4_K_M",
    parameters: match?.repository.parameters ?? Math.round((total ?? qwen.fileSize) / 0.62),
    contextTrained: match?.repository.context ?? 32_768,
    catalogId: entry?.id ?? null,
    source: "catalog",
    license: entry?.license ?? match?.repository.license ?? null,
    downloadedFrom: source,
    isDeletable: true,
  };
}
