// The host of the desktop window. The only file that imports `@tauri-apps/*`.

import { invoke } from "@tauri-apps/api/core";
import { listen } from "@tauri-apps/api/event";
import { getCurrentWebview } from "@tauri-apps/api/webview";
import { openUrl } from "@tauri-apps/plugin-opener";
import type { Host, Announced } from "./host";
import { commands, EVENT_NAME } from "./wire";

export const tauriHost: Host = {
  ...commands(invoke),
  onDrop: (listener) =>
    getCurrentWebview().onDragDropEvent(({ payload }) => {
      if (payload.type === "leave") listener({ type: "leave" });
      else if (payload.type === "drop") listener({ type: "drop", paths: payload.paths });
      else if (payload.type === "enter") listener({ type: "over", paths: payload.paths });
    }),
  setZoom: (factor) => getCurrentWebview().setZoom(factor),
  openLink: (address) => openUrl(address),
  onEvent: (listener) => listen<Announced>(EVENT_NAME, (event) => listener(event.payload)),
};
