// Picks the host: the desktop's, or the fake host in a browser.

import type { Host } from "./host";
import { language } from "../text/language.svelte";

export async function connect(): Promise<Host> {
  if ("__TAURI_INTERNALS__" in window) return (await import("./tauri")).tauriHost;
  const { FakeHost } = await import("./fake");
  const query = new URLSearchParams(window.location.search);
  const host = new FakeHost(query.get("scene"));
  const locale = query.get("language");
  if (locale) language.choose(locale);
  Object.assign(window, { fakeHost: host });
  (await import("./fake/drags")).forwardDrags(host);
  return host;
}
