// Picks the host: the desktop's, or the fake host in a browser.

import type { Host, Language } from "./host";

export async function connect(): Promise<Host> {
  if ("__TAURI_INTERNALS__" in window) return (await import("./tauri")).tauriHost;
  const { FakeHost } = await import("./fake");
  const query = new URLSearchParams(window.location.search);
  const host = new FakeHost(query.get("scene"));
  const locale = query.get("language");
  // A test may ask for the pseudo-locale, which is none of the settings.
  if (locale) await host.setSettings({ ...(await host.snapshot()).settings, language: locale as Language });
  Object.assign(window, { fakeHost: host });
  (await import("./fake/drags")).forwardDrags(host);
  return host;
}
