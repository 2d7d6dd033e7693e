// The UI's only door: every command the window can be asked, and the events it sends. Nothing else in `ui/` knows a desktop.

import type { Conversation, Device, Event, Message, Model, Problem, SearchHit, Sent, Settings, Snapshot } from "./wire";

export type * from "./wire";
export type HostEvent = Event;

/** Commands reject with a {@link Problem}. */
export interface Host {
  /** Everything the window shows when it opens. */
  snapshot(): Promise<Snapshot>;
  openConversation(id: number): Promise<Conversation>;
  /** Without a conversation a new one begins. */
  send(conversation: number | null, parent: number | null, text: string): Promise<Sent>;
  /** A sibling of this answer, to the same message. */
  regenerate(message: number): Promise<Sent>;
  /** A sibling of this message of the person's, with an answer of its own. */
  edit(message: number, text: string): Promise<Sent>;
  stop(conversation: number): Promise<void>;
  /** Shows the branch that runs through this message. */
  selectLeaf(conversation: number, message: number): Promise<Conversation>;
  renameConversation(id: number, title: string): Promise<void>;
  deleteConversation(id: number): Promise<void>;
  restoreConversation(id: number): Promise<void>;
  setSystemPrompt(conversation: number, text: string | null): Promise<void>;
  search(query: string): Promise<SearchHit[]>;
  loadModel(id: string): Promise<void>;
  unloadModel(): Promise<void>;
  addModel(path: string): Promise<Model>;
  /** Takes a model off the list; a file that a person added stays where it is. */
  forgetModel(id: string): Promise<void>;
  setSettings(settings: Settings): Promise<void>;
  devices(): Promise<Device[]>;
  /** A native dialog; none when it is cancelled. */
  chooseModelFile(): Promise<string | null>;
  /** Opens an address in the person's own browser. */
  openLink(address: string): Promise<void>;
  /** Resolves, once events flow, to what ends them. */
  onEvent(listener: (event: HostEvent) => void): Promise<() => void>;
}

/** Whatever was thrown, as a problem with a sentence in it. */
export function asProblem(thrown: unknown): Problem {
  if (typeof thrown === "object" && thrown !== null && "message" in thrown) {
    const code = "code" in thrown && typeof thrown.code === "string" ? thrown.code : "internal";
    return { code, message: String(thrown.message) };
  }
  return { code: "internal", message: String(thrown) };
}

/** An answer that is still being made. */
export function isActive(message: Message): boolean {
  const type = message.state.type;
  return type === "waiting" || type === "reading" || type === "streaming";
}
