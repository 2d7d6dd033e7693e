import { readFileSync } from "node:fs";
import { describe, expect, test, vi } from "vitest";
import type { Download, Host, HostEvent, HubModel, ModelUpdate } from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import { qwen, smol } from "../../src/lib/host/fake/models";
import { detailed } from "../../src/lib/host/fake/problems";
import { App } from "../../src/lib/stores/app.svelte";
import { Updates } from "../../src/lib/stores/updates.svelte";
import { unmatchedText } from "../../src/lib/text/adapters";
import { catalogDescription, descriptions } from "../../src/lib/text/catalog";
import {
  areBundled,
  compactCount,
  downloadedFraction,
  expectedSpeed,
  hasWords,
  progressText,
  removalText,
  shortProgress,
} from "../../src/lib/text/models";
import { language } from "../../src/lib/text/language.svelte";
import { asSource, droppedSource, fileName, repositoryOf } from "../../src/lib/text/source";
import { started, tell } from "./started";
import { until } from "./until";

const download = (change: Partial<Download> = {}): Download => ({
  id: 1,
  name: "X",
  source: "x",
  done: 0,
  total: null,
  bytesPerSecond: 0,
  resumes: true,
  state: { type: "running" },
  ...change,
});

describe("addresses", () => {
  test.each([
    "hf.co/a/b",
    "hf.co/a/b:Q4_K_M",
    "https://huggingface.co/a/b/resolve/main/x.gguf",
    "HuggingFace.co/a/b",
    "ollama://qwen3",
    "ollama://qwen3:0.6b",
    "http://localhost:8080/x.gguf",
    "  hf.co/a/b  ",
  ])("%s is one", (text) => {
    expect(asSource(text)).toBe(text.trim());
  });

  test.each([
    "",
    "qwen",
    "qwen 3",
    "a/b",
    "hf.co",
    "hf.co/",
    "hf.co/ a",
    "file:///etc/passwd",
    "javascript:alert(1)",
    `hf.co/${"x".repeat(3000)}`,
    "https://a b",
  ])("%s is none", (text) => {
    expect(asSource(text)).toBeNull();
  });

  test("of the hub have a repository", () => {
    expect(repositoryOf("hf.co/a/b:Q4_K_M")).toBe("a/b");
    expect(repositoryOf("https://huggingface.co/a/b/tree/main?x#y")).toBe("a/b");
    for (const other of ["hf.co/a", "hf.co/datasets/a", "ollama://a/b", "https://example.com/a/b"])
      expect(repositoryOf(other)).toBeNull();
  });

  test("are found in dropped text", () => {
    expect(droppedSource("see https://hf.co/a/b and more")).toBe("https://hf.co/a/b");
    expect(droppedSource("https://example.com/x.gguf?download=true")).toBe("https://example.com/x.gguf?download=true");
    for (const other of ["https://example.com/page", "a/b", "", "word ".repeat(50_000)])
      expect(droppedSource(other)).toBeNull();
  });

  test("of files have a name", () => {
    expect([fileName("/a/b.gguf"), fileName("C:\\a\\b"), fileName("/a/b/"), fileName("/")]).toEqual([
      "b.gguf",
      "b",
      "b",
      "/",
    ]);
  });
});

test("every model of the catalog is described, and no other", () => {
  const catalog = readFileSync(new URL("../../../models/catalog.toml", import.meta.url), "utf8");
  const ids = [...catalog.matchAll(/^id = "(.+)"$/gm)].map(([, id]) => id);
  expect(Object.keys(descriptions)).toEqual(ids);
  expect(catalogDescription("qwen3-8b")).toContain("Thinks before it answers");
  expect([catalogDescription("of-a-newer-catalog"), catalogDescription(null)]).toEqual([null, null]);
});

test("dialogs of the system have titles in the language of the window", async () => {
  const { app, host } = await started();
  const file = vi.spyOn(host, "chooseModelFile").mockResolvedValue(null);
  const adapter = vi.spyOn(host, "chooseAdapter").mockResolvedValue(null);
  const chats = vi.spyOn(host, "chooseChatExport").mockResolvedValue(null);
  language.choose("de");
  try {
    await app.modelsPage.chooseFile();
    await app.adapters.choose(true);
    await app.transfer.export(1, "html", "Plan");
  } finally {
    language.choose("en");
  }
  expect(file.mock.lastCall).toEqual(["GGUF-Datei hinzufügen", "GGUF-Modelle"]);
  expect(adapter.mock.lastCall).toEqual([true, "PEFT-Ordner importieren", "GGUF-Adapter"]);
  expect(chats.mock.lastCall).toEqual(["html", "Plan", "„Plan“ exportieren"]);
});

describe("labels", () => {
  test("of progress say what a download waits for", () => {
    expect(progressText(download())).toBe("Asking for its size");
    expect(progressText(download({ done: 1.2e9, total: 2.4e9, bytesPerSecond: 12e6 }))).toBe(
      "1.2 GB of 2.4 GB, 12 MB/s, 1 min 40 s left",
    );
    expect(progressText(download({ done: 1e6, total: 2e6 }))).toBe("1 MB of 2 MB, waiting for the server");
    expect(progressText(download({ state: { type: "queued" } }))).toBe("Waiting for other downloads");
    expect(progressText(download({ total: 0 }))).not.toContain("NaN");
    expect(shortProgress(download({ done: 1, total: 4 }))).toBe("25 %");
  });

  test("of a download that waits for its next attempt count down to it", () => {
    const problem = detailed("download", "no network");
    const waiting = (change: Partial<Download>, now: number) =>
      progressText(download({ ...change, state: { type: "waiting", problem, retryAt: 100_000 } }), now);
    expect(waiting({}, 85_000)).toBe("Not started, next try in 15 s");
    expect(waiting({ done: 1e6, total: 2e6 }, 10_000)).toBe("1 MB of 2 MB, next try in 1 min 30 s");
    expect(waiting({ done: 1e6, total: 2e6 }, 200_000)).toBe("1 MB of 2 MB, next try in 0 s");
  });

  test("of models have the words of a query in any order", () => {
    const has = (query: string) => hasWords("Qwen3 4B Instruct 2507 qwen3-4b-instruct-2507", query);
    expect(["4b QWEN3", "", " qwen3-4b ", "instruct 4", "qwen3 8b"].map(has)).toEqual([true, true, true, true, false]);
  });

  test("of a fraction stay between 0 and 1", () => {
    expect([
      downloadedFraction(download({ done: 3, total: 2 })),
      downloadedFraction(download({ total: 0 })),
      downloadedFraction(download()),
    ]).toEqual([1, null, null]);
  });

  test("of speeds have two digits", () => {
    const at = (tokensPerSecond: number | null) => expectedSpeed({ tokensPerSecond });
    expect([at(231.4), at(29.6), at(8.24), at(null), at(0), at(Number.NaN)]).toEqual([
      "about 230 tokens/s",
      "about 30 tokens/s",
      "about 8.2 tokens/s",
      null,
      null,
      null,
    ]);
  });

  test("of a removal say whose the file is", () => {
    expect(removalText({ ...qwen, isDeletable: true, source: "catalog" })).toContain("Deletes the file, 639 MB");
    expect(removalText({ ...qwen, source: "ollama" })).toContain("belongs to Ollama");
    expect(removalText({ ...qwen, source: "folder" })).toContain("stays where it is");
  });

  test("of numbers are short", () => {
    expect([0, 999, 412_803, 1_200_000].map(compactCount)).toEqual(["0", "999", "413k", "1.2M"]);
  });
});

describe("the search of the hub", () => {
  const hubModel = (id: string) => ({ id }) as HubModel;

  test("ignores an answer that is late", async () => {
    const { app, host } = await started();
    const answers: ((models: HubModel[]) => void)[] = [];
    host.searchHub = () => new Promise((resolve) => answers.push(resolve));
    app.hub.query = "old";
    const old = app.hub.search();
    app.hub.query = "new";
    const late = app.hub.search();
    answers[1]?.([hubModel("new")]);
    await late;
    answers[0]?.([hubModel("old")]);
    await old;
    expect(app.hub.results.map(({ id }) => id)).toEqual(["new"]);
  });

  test("asks again once this machine is measured, and keeps its results meanwhile", async () => {
    const { app, host } = await started();
    await app.hub.search();
    const { results } = app.hub;
    host.measureIdle();
    expect(app.hub.results).toBe(results);
    await until(() => app.hub.results !== results);
    expect(host.requests).toEqual(["search  trending", "search  trending"]);
  });

  test("asks nothing while offline, nor for an address", async () => {
    const { app, host } = await started("offline");
    app.hub.query = "qwen";
    await app.hub.search();
    await app.settings.change({ offline: false });
    app.hub.query = "hf.co/a/b";
    await app.hub.search();
    expect(host.requests).toEqual([]);
  });

  test("closes a repository before its answer", async () => {
    const { app } = await started();
    const showing = app.hub.show("unsloth/Qwen3-0.6B-GGUF");
    app.hub.close();
    await showing;
    expect([app.hub.open, app.hub.repository]).toEqual([null, null]);
  });
});

describe("downloads", () => {
  test("are requested once for two clicks", async () => {
    const { app, host } = await started();
    const start = vi.spyOn(host, "startDownload");
    await Promise.all([app.downloads.start("gemma-3-1b-it"), app.downloads.start("gemma-3-1b-it")]);
    expect([start.mock.calls.length, app.downloads.all.length]).toEqual([1, 1]);
  });

  test("notify of their end once, and not of ends before the start", async () => {
    const { app, host } = await started("downloads");
    expect(app.toasts.all.length).toBe(0);
    await app.modelsPage.download("gemma-3-1b-it");
    await until(() => app.downloads.of("gemma-3-1b-it")?.state.type === "done");
    const ready = () => app.toasts.all.filter(({ text }) => text === "Gemma 3 1B is ready").length;
    expect(ready()).toBe(1);
    app.toasts.all = [];
    const event: HostEvent = { type: "downloadsChanged", downloads: await host.downloads() };
    tell(app, event);
    expect(ready()).toBe(0);
    // One that is new and done at once is news.
    tell(app, {
      type: "downloadsChanged",
      downloads: [
        ...event.downloads,
        download({ id: 777, name: "New", state: { type: "done", model: "x", adapter: null } }),
      ],
    });
    expect(app.toasts.all.map(({ text }) => text)).toEqual(["New is ready"]);
  });

  test("that ended before the list is loaded are no news", async () => {
    const host = new FakeHost("downloads");
    const app = new App(host, { schedule: (callback) => callback() });
    tell(app, { type: "downloadsChanged", downloads: await host.downloads() });
    await app.start();
    expect(app.toasts.all).toEqual([]);
  });

  test("of an unknown id change nothing", async () => {
    const { app } = await started("downloads");
    const before = app.downloads.all.map(({ done }) => done);
    tell(app, { type: "downloadProgress", id: 777, done: 1, total: 2, bytesPerSecond: 3 });
    expect(app.downloads.all.map(({ done }) => done).length).toBe(before.length);
  });
});

describe("updates of models", () => {
  const source = "hf.co/bartowski/SmolLM2-360M-Instruct-GGUF:Q8_0";

  test("are asked for once by two clicks, and never at the start", async () => {
    const { app, host } = await started("discover");
    expect([host.requests, app.updates.all]).toEqual([[], null]);
    await Promise.all([app.updates.check(), app.updates.check()]);
    expect(host.requests).toEqual(["updates"]);
    expect([app.updates.available, app.updates.unknown]).toEqual([1, 0]);
    expect(app.updates.of("own-download")?.source).toBe(source);
  });

  test("are gone once the new version is downloaded", async () => {
    const { app } = await started("discover");
    await app.updates.check();
    await app.modelsPage.download(source);
    expect(app.updates.available).toBe(1);
    await until(() => app.downloads.of(source)?.state.type === "done");
    expect([app.updates.available, app.updates.of("own-download")?.state.type]).toEqual([0, "current"]);
    await app.updates.check();
    expect(app.updates.available).toBe(0);
  });

  test("of downloads that end while or after the servers are asked are gone", async () => {
    type State = "running" | "done";
    // Events before the click, while the servers are asked, and after their answer.
    const cases: [State[], State[], State[], number][] = [
      [["done"], [], [], 1],
      [["done"], ["done"], ["done"], 1],
      [["running"], ["done"], [], 0],
      [[], ["running", "done"], [], 0],
      [["running"], [], ["done"], 0],
      [[], ["running"], ["done"], 0],
    ];
    for (const [before, during, after, expected] of cases) {
      let answer: (all: ModelUpdate[]) => void = () => undefined;
      const checkUpdates = () => new Promise<ModelUpdate[]>((resolve) => (answer = resolve));
      const updates = new Updates({ checkUpdates } as unknown as Host);
      const tell = (states: State[]) => {
        for (const type of states)
          updates.handle({
            type: "downloadsChanged",
            downloads: [{ source, state: { type } }],
          } as unknown as HostEvent);
      };
      tell(before);
      const checked = updates.check();
      tell(during);
      answer([{ model: "own-download", source, state: { type: "available" } }]);
      await checked;
      tell(after);
      expect(updates.available, JSON.stringify([before, during, after])).toBe(expected);
    }
  });

  test("that nothing tells of are unknown with the reason", async () => {
    const { app, host } = await started("discover");
    host.serverStates.set(source, { type: "unknown", problem: detailed("download", "No answer.") });
    await app.updates.check();
    expect([app.updates.available, app.updates.unknown]).toEqual([0, 1]);
  });

  test("can be asked for again after a failure", async () => {
    const { app, host } = await started("discover");
    host.unreachable = true;
    await expect(app.updates.check()).rejects.toMatchObject({ code: "download" });
    host.unreachable = false;
    await app.updates.check();
    expect(app.updates.available).toBe(1);
  });
});

describe("the offer of first models", () => {
  test("is declined for good", async () => {
    const storage = new Map<string, string>();
    const { app } = await started("first-run", storage);
    expect(app.modelsPage.declined).toBe(false);
    app.modelsPage.decline();
    expect((await started("first-run", storage)).app.modelsPage.declined).toBe(true);
  });
});

describe("dropped files", () => {
  test("go to Models if they are models, to Tune if they are examples", async () => {
    const { app } = await started();
    expect(app.modelsPage.accept({ type: "drop", paths: ["/x/data.jsonl"] })).toBe(false);
    expect(app.modelsPage.accept({ type: "drop", paths: [] })).toBe(false);
    expect(app.modelsPage.accept({ type: "drop", paths: ["/x/model.Q8_0.GGUF"] })).toBe(true);
    expect(app.view).toBe("models");
    app.view = "tune";
    expect(app.modelsPage.accept({ type: "drop", paths: ["/x/folder"] })).toBe(false);
  });

  test("that are a folder become a folder of models", async () => {
    const { app } = await started();
    app.modelsPage.accept({ type: "drop", paths: ["/x/folder"] });
    await until(() => app.models.all.some(({ source }) => source === "folder"));
    expect(app.settings.value.modelFolders).toEqual(["/x/folder"]);
  });
});

test("a model that was made from the bundled one is none better", () => {
  const merged = { ...smol, id: "merged", source: "file", quantization: "Q8_0", catalogId: null } as const;
  expect(areBundled([])).toBe(true);
  expect(areBundled([smol, merged])).toBe(true);
  expect(areBundled([smol, qwen])).toBe(false);
  expect(areBundled([merged])).toBe(false);
});

test("entries of an adapter that match no module are named", () => {
  const unmatched = { setting: "alpha_pattern", entries: ["^q_proj", "typo"], more: 0 };
  expect(unmatchedText(unmatched)).toBe(
    "No module matches ^q_proj, typo in its alpha_pattern, so that has no effect, as in PEFT.",
  );
  expect(unmatchedText({ ...unmatched, more: 3 })).toContain("^q_proj, typo, … (+3) in its alpha_pattern");
});
