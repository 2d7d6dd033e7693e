// Updates the pages on devices and load settings while they are open: polls the devices, and plans
// again when the model, its state, or the memory in use by other programs has changed.

import { untrack } from "svelte";
import type { App } from "../stores/app.svelte";

/** Time between plans in milliseconds. */
const PLAN_MS = 10_000;

/** Polls and plans until the component ends. Must be called while the component is created. */
export function watchMachine(app: App): void {
  $effect(() => app.machine.watch());
  $effect(() => {
    void app.models.state.type;
    void app.models.current;
    untrack(() => void app.planning.refresh());
  });
  $effect(() => {
    const timer = setInterval(() => void app.planning.refresh(), PLAN_MS);
    return () => clearInterval(timer);
  });
}
