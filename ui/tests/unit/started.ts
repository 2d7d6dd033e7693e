// The app on the fake host, without waits.

import type { HostEvent } from "../../src/lib/host";
import { FakeHost } from "../../src/lib/host/fake";
import { App } from "../../src/lib/stores/app.svelte";

/** Starts an app on a fake host. `stored` is the content of its storage. */
export async function started(
  scene: string | null = null,
  stored?: Map<string, string>,
): Promise<{ app: App; host: FakeHost }> {
  const host = new FakeHost(scene);
  host.pace = 0;
  const storage = stored
    ? {
        getItem: (key: string) => stored.get(key) ?? null,
        setItem: (key: string, value: string) => void stored.set(key, value),
      }
    : null;
  const app = new App(host, { storage, schedule: (callback) => callback() });
  await app.start();
  return { app, host };
}

let lastRevision = 1e9;

/** Tells the app of an event, which is newer than all replies. */
export function tell(app: App, event: HostEvent): void {
  app.handle({ ...event, revision: ++lastRevision });
}
