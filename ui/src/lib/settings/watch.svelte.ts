// What the pages on devices and load settings do while they are open: poll the devices, and plan again when the model,
// what is loaded, or the memory that other programs use has changed.

import { untrack } from "svelte";
import type { App } from "../stores/app.svelte";

/** Time between plans in milliseconds. */
const PLAN_MS = 10_000;

/** Call while a component is created; it ends with the component. */
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
