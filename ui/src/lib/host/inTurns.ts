// Sends commands that change the user's data to the app one at a time. The app runs each command in
// a separate task, and the later of two changes must be applied last. At most one system dialog is
// open at a time.

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
    "restoreMessages",
    "purgeMessages",
    "branchOff",
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

/** Whether a command opens a system dialog in which the user chooses a path. */
const isDialog = (name: PropertyKey): name is string => typeof name === "string" && name.startsWith("choose");

export function inTurns(host: Host): Host {
  const turns = new Map<PropertyKey, Turns>();
  for (const names of ORDERED) {
    const shared = new Turns();
    for (const name of names) turns.set(name, shared);
  }
  let isChoosing = false;

  /** Opens a dialog. While one is open, another one returns as if the user had cancelled it. */
  async function choose(name: string, open: () => Promise<unknown>): Promise<unknown> {
    if (isChoosing) return name === "chooseTextFiles" ? [] : null;
    isChoosing = true;
    try {
      return await open();
    } finally {
      isChoosing = false;
    }
  }

  return new Proxy(host, {
    get(target, name) {
      const command: unknown = Reflect.get(target, name);
      if (typeof command !== "function") return command;
      // Not on the proxy, where a command that calls another one would wait for itself.
      const run = (...named: unknown[]) => Reflect.apply(command, target, named);
      if (isDialog(name)) return (...named: unknown[]) => choose(name, () => run(...named) as Promise<unknown>);
      const ordered = turns.get(name);
      return ordered ? (...named: unknown[]) => ordered.run(() => run(...named)) : run;
    },
  });
}
