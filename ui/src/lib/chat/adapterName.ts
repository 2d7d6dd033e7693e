// Names of the adapters of a message.

import type { Message } from "../host";
import { usedAdapterName } from "../text/adapters";
import { language } from "../text/language.svelte";

/** `poems`, or `poems × 0.5` if it is scaled. */
export function adapterName({ name, scale }: Message["adapters"][number]): string {
  const shown = usedAdapterName(name);
  return scale === 1 ? shown : `${shown} × ${scaleText(scale)}`;
}

export function scaleText(scale: number, digits = 0): string {
  return scale.toLocaleString(language.intl, { minimumFractionDigits: digits });
}
