// Moves the drafts and queued messages that earlier versions kept in the page's storage to the app.

import { asProblem, type Host, type QueuedMessage, type TextFile, type UnsentChange } from "../host";
import type { PageStorage } from "./storage";

const DRAFTS = "hearth.drafts";
const QUEUE = "hearth.queue";

export async function moveOldUnsent(storage: PageStorage | null, host: Pick<Host, "saveUnsent">): Promise<void> {
  for (const [conversation, text] of entries(storage, DRAFTS)) if (typeof text === "string") await save(host, conversation, { text });
  storage?.removeItem(DRAFTS);
  for (const [conversation, messages] of entries(storage, QUEUE)) {
    const queue = Array.isArray(messages) ? messages.filter(isQueued) : [];
    if (conversation !== null && queue.length > 0) await save(host, conversation, { queue });
  }
  storage?.removeItem(QUEUE);
}

/** What was saved by conversation; nothing if it cannot be read. */
function entries(storage: PageStorage | null, key: string): [number | null, unknown][] {
  try {
    const saved: unknown = JSON.parse(storage?.getItem(key) ?? "{}");
    if (typeof saved !== "object" || saved === null || Array.isArray(saved)) return [];
    return Object.entries(saved).flatMap(([id, value]): [number | null, unknown][] => (id === "null" ? [[null, value]] : /^\d{1,16}$/.test(id) ? [[Number(id), value]] : []));
  } catch {
    return [];
  }
}

async function save(host: Pick<Host, "saveUnsent">, conversation: number | null, change: Partial<UnsentChange>): Promise<void> {
  try {
    await host.saveUnsent(conversation, { text: null, files: null, queue: null, ...change });
  } catch (thrown) {
    // A conversation that is gone for good has nothing to send.
    if (asProblem(thrown).code !== "notFound") throw thrown;
  }
}

function isQueued(message: unknown): message is QueuedMessage {
  if (typeof message !== "object" || message === null || !("text" in message) || !("files" in message)) return false;
  return typeof message.text === "string" && Array.isArray(message.files) && message.files.every(isFile);
}

function isFile(file: unknown): file is TextFile {
  return typeof file === "object" && file !== null && "name" in file && typeof file.name === "string" && "text" in file && typeof file.text === "string";
}
