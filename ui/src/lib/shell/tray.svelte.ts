// Shows running work in the tray.

import { m } from "$messages";
import type { App } from "../stores/app.svelte";
import { runningLines } from "./running";

export function showTray(app: App): void {
  $effect(() => {
    // Before that, the setting is not known.
    if (!app.ready) return;
    if (app.settings.value.tray === "off") return app.tray.show(null);
    const running = runningLines(app);
    app.tray.show({
      open: m.shell_tray_open(),
      running: running.length > 0 ? running : [m.shell_tray_idle()],
      quit: m.shell_tray_quit(),
    });
  });
}
