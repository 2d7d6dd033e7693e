// The host of the desktop window. The only file that imports `@tauri-apps/*`.

import { invoke } from "@tauri-apps/api/core";
import { listen } from "@tauri-apps/api/event";
import { getCurrentWebview } from "@tauri-apps/api/webview";
import { openUrl } from "@tauri-apps/plugin-opener";
import type { Host, HostEvent } from "./host";

/** The name of the Tauri event that carries every wire event. */
const EVENT_NAME = "hearth";

export const tauriHost: Host = {
  snapshot: () => invoke("snapshot"),
  openConversation: (id) => invoke("open_conversation", { id }),
  send: (conversation, parent, text) => invoke("send", { conversation, parent, text }),
  regenerate: (message) => invoke("regenerate", { message }),
  edit: (message, text) => invoke("edit", { message, text }),
  stop: (conversation) => invoke("stop", { conversation }),
  selectLeaf: (conversation, message) => invoke("select_leaf", { conversation, message }),
  renameConversation: (id, title) => invoke("rename_conversation", { id, title }),
  deleteConversation: (id) => invoke("delete_conversation", { id }),
  restoreConversation: (id) => invoke("restore_conversation", { id }),
  setSystemPrompt: (conversation, text) => invoke("set_system_prompt", { conversation, text }),
  search: (query) => invoke("search", { query }),
  loadModel: (id) => invoke("load_model", { id }),
  unloadModel: () => invoke("unload_model"),
  addModel: (path) => invoke("add_model", { path }),
  removeModel: (id) => invoke("remove_model", { id }),
  setSettings: (settings) => invoke("set_settings", { settings }),
  devices: () => invoke("devices"),
  checkDevice: (device) => invoke("check_device", { device }),
  plan: (model, loadSettings) => invoke("plan", { model, loadSettings }),
  measure: () => invoke("measure"),
  stopMeasuring: () => invoke("stop_measuring"),
  measurements: () => invoke("measurements"),
  caches: () => invoke("caches"),
  clearCache: (cache) => invoke("clear_cache", { cache }),
  report: () => invoke("report"),
  chooseModelFile: () => invoke("choose_model_file"),
  datasets: () => invoke("datasets"),
  sampleDatasets: () => invoke("sample_datasets"),
  addDataset: (path) => invoke("add_dataset", { path }),
  chooseDataFile: () => invoke("choose_data_file"),
  renameDataset: (id, name) => invoke("rename_dataset", { id, name }),
  removeDataset: (id) => invoke("remove_dataset", { id }),
  restoreDataset: (id) => invoke("restore_dataset", { id }),
  inspectDataset: (id, model, mapping, skipBroken, sequence) => invoke("inspect_dataset", { id, model, mapping, skipBroken, sequence }),
  runs: () => invoke("runs"),
  runPoints: (id) => invoke("run_points", { id }),
  trainDefaults: () => invoke("train_defaults"),
  startRun: (run) => invoke("start_run", { run }),
  pauseRun: (id) => invoke("pause_run", { id }),
  resumeRun: (id) => invoke("resume_run", { id }),
  stopRun: (id) => invoke("stop_run", { id }),
  renameRun: (id, name) => invoke("rename_run", { id, name }),
  deleteRun: (id) => invoke("delete_run", { id }),
  restoreRun: (id) => invoke("restore_run", { id }),
  adapters: () => invoke("adapters"),
  importAdapter: (path, model) => invoke("import_adapter", { path, model }),
  chooseAdapter: (folder) => invoke("choose_adapter", { folder }),
  renameAdapter: (id, name) => invoke("rename_adapter", { id, name }),
  deleteAdapter: (id) => invoke("delete_adapter", { id }),
  restoreAdapter: (id) => invoke("restore_adapter", { id }),
  exportAdapter: (options) => invoke("export_adapter", { options }),
  chooseExportTarget: (format, name) => invoke("choose_export_target", { format, name }),
  setConversationAdapters: (conversation, choices) => invoke("set_conversation_adapters", { conversation, choices }),
  compare: (conversation, parent, text, adapters) => invoke("compare", { conversation, parent, text, adapters }),
  voteAnswer: (message, better) => invoke("vote_answer", { message, better }),
  rateAnswer: (message, thumb, correction) => invoke("rate_answer", { message, thumb, correction }),
  ratedExamples: () => invoke("rated_examples"),
  datasetFromRatings: (name) => invoke("dataset_from_ratings", { name }),
  onDrop: (listener) =>
    getCurrentWebview().onDragDropEvent(({ payload }) => {
      if (payload.type === "leave") listener({ type: "leave" });
      else if (payload.type === "drop") listener({ type: "drop", paths: payload.paths });
      else if (payload.type === "enter") listener({ type: "over", paths: payload.paths });
    }),
  openLink: (address) => openUrl(address),
  onEvent: (listener) => listen<HostEvent>(EVENT_NAME, (event) => listener(event.payload)),
};
