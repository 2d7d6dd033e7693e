// The host inside the desktop window. The only file that imports `@tauri-apps/*`.

import { invoke } from "@tauri-apps/api/core";
import { listen } from "@tauri-apps/api/event";
import { openUrl } from "@tauri-apps/plugin-opener";
import type { Host, HostEvent } from "./host";

/** The name under which the window's process emits every event of the wire. */
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
  forgetModel: (id) => invoke("forget_model", { id }),
  setSettings: (settings) => invoke("set_settings", { settings }),
  devices: () => invoke("devices"),
  chooseModelFile: () => invoke("choose_model_file"),
  openLink: (address) => openUrl(address),
  onEvent: (listener) => listen<HostEvent>(EVENT_NAME, (event) => listener(event.payload)),
};
