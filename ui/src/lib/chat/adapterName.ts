// Names of the adapters of a message.

import type { Message } from "../host";
import { language } from "../text/language.svelte";

/** `poems`, or `poems × 0.5` if it is scaled. */
export function adapterName({ name, scale }: Message["adapters"][number]): string {
  return scale === 1 ? name : `${name} × ${scaleText(scale)}`;
}

export function scaleText(scale: number, digits = 0): string {
  return scale.toLocaleString(language.intl, { minimumFractionDigits: digits });
}
