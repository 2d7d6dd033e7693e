// Sends commands about what a person sees to the app one after the other: each runs in a task of its own there, and the
// last of two changes must be the last.

import { Turns } from "../stores/turns";
import type { Host } from "./host";

/** Commands that end soon. Not those that wait for a worker, the network or a person. */
const ORDERED: ReadonlySet<PropertyKey> = new Set<keyof Host>([
  "openConversation", "selectLeaf", "renameConversation", "restoreConversation", "pinConversation", "moveConversation", "setTags",
  "setSystemPrompt", "setConversationSettings", "setConversationAdapters", "applyPreset",
  "send", "compare", "regenerate", "edit", "continueAnswer", "editAnswer", "voteAnswer", "rateAnswer",
  "createFolder", "updateFolder", "deleteFolder", "restoreFolder",
  "savePreset", "updatePreset", "renamePreset", "deletePreset", "restorePreset",
  "savePrompt", "deletePrompt",
  "renameDataset", "removeDataset", "restoreDataset", "renameRun", "restoreRun", "renameAdapter", "deleteAdapter", "restoreAdapter",
]);

export function inTurns(host: Host): Host {
  const turns = new Turns();
  return new Proxy(host, {
    get(target, name) {
      const command: unknown = Reflect.get(target, name);
      if (typeof command !== "function") return command;
      // Not on the proxy, where a command that calls another one would wait for itself.
      const run = (...named: unknown[]) => Reflect.apply(command, target, named);
      return ORDERED.has(name) ? (...named: unknown[]) => turns.run(() => run(...named)) : run;
    },
  });
}
