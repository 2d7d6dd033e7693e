// Lines on running work, for the badges of the rail and the menu of the tray.

import { m } from "$messages";
import type { App } from "../stores/app.svelte";
import { percent } from "../text/format";
import { statusLine } from "../tune/status";

export function answersLine(app: App): string | null {
  const count = app.thread.live.busy.size;
  return count > 0 ? m.shell_answering({ count }) : null;
}

export function runLine(app: App): string | null {
  const run = app.runs.current;
  return run && m.shell_run_line({ name: run.name, status: statusLine(run) });
}

export function downloadsLine(app: App): string | null {
  const count = app.downloads.active.length;
  const { fraction } = app.downloads;
  if (count === 0) return null;
  if (app.downloads.isWaiting) return m.models_downloads_waiting({ count });
  return fraction === null
    ? m.models_downloads_active({ count })
    : m.models_downloads_active_percent({ count, percent: percent(fraction) });
}

export function runningLines(app: App): string[] {
  return [answersLine(app), runLine(app), downloadsLine(app)].filter((line) => line !== null);
}
