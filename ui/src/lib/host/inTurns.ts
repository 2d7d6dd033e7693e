// Sends commands that change the user's data to the app one at a time. The app runs each command in
// a separate task, and the later of two changes must be applied last.

import { Turns } from "../stores/turns";
import type { Host } from "./host";

/**
 * Commands that only read and write the store. Commands that wait for a worker, a drive, the
 * network or the user are not ordered.
 */
const ORDERED: readonly (readonly (keyof Host)[])[] = [
  [
    "openConversation",
    "selectLeaf",
    "renameConversation",
    "restoreConversation",
    "purgeConversations",
    "pinConversation",
    "moveConversation",
    "setTags",
    "setSystemPrompt",
    "setConversationSettings",
    "setConversationAdapters",
    "applyPreset",
    "send",
    "compare",
    "regenerate",
    "edit",
    "continueAnswer",
    "editAnswer",
    "voteAnswer",
    "rateAnswer",
    "createFolder",
    "updateFolder",
    "deleteFolder",
    "restoreFolder",
    "savePreset",
    "updatePreset",
    "renamePreset",
    "deletePreset",
    "restorePreset",
    "savePrompt",
    "deletePrompt",
  ],
  // The list of datasets opens each file.
  ["renameDataset", "removeDataset", "restoreDataset"],
  ["renameRun", "restoreRun", "renameAdapter", "deleteAdapter", "restoreAdapter"],
];

export function inTurns(host: Host): Host {
  const turns = new Map<PropertyKey, Turns>();
  for (const names of ORDERED) {
    const shared = new Turns();
    for (const name of names) turns.set(name, shared);
  }
  return new Proxy(host, {
    get(target, name) {
      const command: unknown = Reflect.get(target, name);
      if (typeof command !== "function") return command;
      // Not on the proxy, where a command that calls another one would wait for itself.
      const run = (...named: unknown[]) => Reflect.apply(command, target, named);
      const ordered = turns.get(name);
      return ordered ? (...named: unknown[]) => ordered.run(() => run(...named)) : run;
    },
  });
}
