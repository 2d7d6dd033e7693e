// Problems of the fake host: codes and reasons of the app and its workers.

import type { Problem, Reason } from "../wire";

/** A problem with its data. */
export function problem(code: string, reason: Reason): Problem {
  return { code, reason };
}

/** A problem in the words of a library, which the engine does not translate. */
export function detailed(code: string, detail: string): Problem {
  return problem(code, { area: "detail", detail });
}

/** The system's error for a file that does not exist. */
export const NO_FILE = "No such file or directory (os error 2)";

/** A worker that crashed. */
export const CRASHED: Problem = problem("workerDied", {
  area: "worker",
  type: "exited",
  exit: { type: "signal", signal: 11 },
});

export const NO_CONVERSATION = problem("notFound", { area: "chat", type: "noConversation" });
export const NO_MESSAGE = problem("notFound", { area: "chat", type: "noMessage" });
export const MESSAGE_DELETED = problem("notFound", { area: "chat", type: "messageDeleted" });
export const PARENT_DELETED = problem("badRequest", { area: "chat", type: "parentDeleted" });
export const MODEL_GONE = problem("notFound", { area: "models", type: "modelGone" });

/** A device was named that the machine does not have. */
export function noSuchDevice(name: string, devices: readonly { id: string }[]): Problem {
  return problem("noDevice", { area: "load", type: "noSuchDevice", name, known: devices.map(({ id }) => id) });
}
