// The app on the fake host, without waits.

import { FakeHost } from "../../src/lib/host/fake";
import { App } from "../../src/lib/stores/app.svelte";

export async function started(scene: string | null = null): Promise<{ app: App; host: FakeHost }> {
  const host = new FakeHost(scene);
  host.pace = 0;
  const app = new App(host, { schedule: (callback) => callback() });
  await app.start();
  return { app, host };
}
