// Which sampling parameters have no effect, and why.

import type { ConversationSettings, SamplingParams } from "../../host";
import { withOverrides } from "../../text/sampling";
import type { GroupId } from "./knobs";

const GREEDY = "No effect at temperature 0: the model always takes the most likely token.";
const MIROSTAT = "No effect while Mirostat is on.";

/** The parameters of the next answer. */
export function effective(defaults: SamplingParams, settings: ConversationSettings): SamplingParams {
  return withOverrides(defaults, settings.sampling);
}

/** What a group should know of the other parameters. `null` means nothing. */
export function note(group: GroupId, s: SamplingParams): string | null {
  const greedy = s.temperature === 0;
  const draws = greedy ? GREEDY : s.mirostat ? MIROSTAT : null;
  switch (group) {
    case "length":
    case "bans":
    case "schema":
      return null;
    case "filters":
      return draws;
    case "xtc":
      return draws ?? off(s.xtcProbability === 0, "the probability is 0") ?? off(s.xtcThreshold > 0.5, "the threshold is above 0.5");
    case "dynatemp":
      return draws ?? off(s.dynatempRange === 0, "the range is 0");
    case "mirostat":
      if (greedy) return GREEDY;
      return s.mirostat ? "On: the filters, XTC and dynamic temperature have no effect." : null;
    case "penalties":
      return off(s.repeatLastN === 0, "the window is 0");
    case "dry":
      return off(s.dryMultiplier === 0, "the multiplier is 0") ?? off(s.dryLastN === 0, "the window is 0");
    case "other":
      return greedy ? "The seed has no effect at temperature 0." : null;
  }
}

/** What temperature 0 does to the rest. */
export function temperatureNote(s: SamplingParams): string | null {
  return s.temperature === 0 ? "At 0, the filters, XTC, Mirostat, dynamic temperature and the seed have no effect." : null;
}

function off(is: boolean, why: string): string | null {
  return is ? `Off: ${why}.` : null;
}
