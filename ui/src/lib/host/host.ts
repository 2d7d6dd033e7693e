// The interface between UI and app. Nothing outside `host/` depends on the desktop.

import type { Commands, ConversationSettings, Event, Message, NewConversation, Problem, Unsent } from "./wire";

export type * from "./wire";
export { defaultSettings } from "./wire";
export type HostEvent = Event;
/** An event and its revision, which grows; see {@link Commands.revision}. */
export type Announced = Event & { revision: number };

/** Files dragged over the window: `over`, then `drop` or `leave`. */
export type FileDrop = { type: "over" | "drop"; paths: string[] } | { type: "leave" };

export interface Host extends Commands {
  /** Listens to dragged files; returns a function that stops listening. */
  onDrop(listener: (drop: FileDrop) => void): Promise<() => void>;
  /** Scales the page, text and controls alike: 1 is normal. */
  setZoom(factor: number): Promise<void>;
  /** Opens an address in the default browser. */
  openLink(address: string): Promise<void>;
  /** Listens to events; returns a function that stops listening. */
  onEvent(listener: (event: Announced) => void): Promise<() => void>;
}

/** Whether a value is a `Problem`. */
export function isProblem(value: unknown): value is Problem {
  if (typeof value !== "object" || value === null || !("reason" in value)) return false;
  const { reason } = value;
  return typeof reason === "object" && reason !== null && "area" in reason;
}

/** Converts any thrown value to a `Problem`. */
export function asProblem(error: unknown): Problem {
  if (isProblem(error)) return error;
  const detail = error instanceof Error ? error.message : String(error);
  return { code: "internal", reason: { area: "detail", detail } };
}

/** Conversation settings without any set value. */
export const defaultChatSettings: ConversationSettings = {
  model: null,
  preset: null,
  sampling: {
    temperature: null,
    topK: null,
    topP: null,
    minP: null,
    typicalP: null,
    topNSigma: null,
    repetitionPenalty: null,
    frequencyPenalty: null,
    presencePenalty: null,
    repeatLastN: null,
    xtcProbability: null,
    xtcThreshold: null,
    dryMultiplier: null,
    dryBase: null,
    dryAllowedLength: null,
    dryLastN: null,
    mirostatTau: null,
    mirostatEta: null,
    dynatempRange: null,
    dynatempExponent: null,
    mirostat: null,
    dryBreakers: null,
    logitBias: null,
    bannedStrings: null,
    seed: null,
  },
  maxTokens: null,
  stop: null,
  thinking: { enabled: null, effort: null },
  jsonSchema: null,
};

/** The default initial state of a conversation. */
export const defaultBeginning: NewConversation = {
  settings: defaultChatSettings,
  systemPrompt: null,
  folder: null,
  adapters: [],
};

/** The unsent state of a conversation without a draft. */
export const nothingUnsent: Unsent = { text: "", files: [], queue: [] };

/** Whether an answer is still being generated. */
export function isActive(message: Message): boolean {
  const type = message.state.type;
  return type === "waiting" || type === "loading" || type === "prefill" || type === "streaming";
}
