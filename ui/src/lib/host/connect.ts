// Picks the host: the desktop's, or the fake host in a browser.

import type { Host } from "./host";

export async function connect(): Promise<Host> {
  if ("__TAURI_INTERNALS__" in window) return (await import("./tauri")).tauriHost;
  const { FakeHost } = await import("./fake");
  const scene = new URLSearchParams(window.location.search).get("scene");
  const host = new FakeHost(scene);
  Object.assign(window, { fakeHost: host });
  (await import("./fake/drags")).forwardDrags(host);
  return host;
}
