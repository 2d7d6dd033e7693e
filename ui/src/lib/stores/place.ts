// The open view, page and conversation, to which a reload of the page returns. They are stored for
// the session of the window only.

import type { PageStorage } from "./storage";
import type { ModelsTab } from "./modelsPage.svelte";
import { settingsPages, type SettingsPage, type View } from "./view";

const KEY = "hearth.place";

export interface Place {
  view: View;
  conversation: number | null;
  /** The folder of a new conversation. */
  folder: number | null;
  settingsPage: SettingsPage;
  modelsTab: ModelsTab;
  tune: { at: "start" } | { at: "data"; dataset: number } | { at: "run"; run: number };
}

const VIEWS: readonly unknown[] = ["chat", "tune", "models", "settings"] satisfies View[];
const TABS: readonly unknown[] = ["machine", "discover", "downloads"] satisfies ModelsTab[];

export function writePlace(storage: PageStorage | null, place: Place): void {
  try {
    storage?.setItem(KEY, JSON.stringify(place));
  } catch {
    // Without storage a reload begins with a new conversation.
  }
}

/** The stored place; `null` if there is none. Parts that cannot be read are the defaults. */
export function readPlace(storage: PageStorage | null): Place | null {
  let stored: unknown;
  try {
    stored = JSON.parse(storage?.getItem(KEY) ?? "null");
  } catch {
    return null;
  }
  if (!isRecord(stored)) return null;
  const { view, settingsPage, modelsTab } = stored;
  return {
    view: VIEWS.includes(view) ? (view as View) : "chat",
    conversation: idOf(stored.conversation),
    folder: idOf(stored.folder),
    settingsPage: settingsPages.find(({ id }) => id === settingsPage)?.id ?? "general",
    modelsTab: TABS.includes(modelsTab) ? (modelsTab as ModelsTab) : "machine",
    tune: tuneOf(stored.tune),
  };
}

function tuneOf(stored: unknown): Place["tune"] {
  if (!isRecord(stored)) return { at: "start" };
  const [run, dataset] = [idOf(stored.run), idOf(stored.dataset)];
  if (stored.at === "run" && run !== null) return { at: "run", run };
  if (stored.at === "data" && dataset !== null) return { at: "data", dataset };
  return { at: "start" };
}

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
const idOf = (value: unknown): number | null => (Number.isSafeInteger(value) ? (value as number) : null);
