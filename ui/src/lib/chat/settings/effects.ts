// Notes on sampling parameters that have no effect, with the reason.

import { m } from "$messages";
import type { ConversationSettings, SamplingParams } from "../../host";
import { withOverrides } from "../../text/sampling";
import type { GroupId } from "./knobs";

/** The parameters of the next answer. */
export function effective(defaults: SamplingParams, settings: ConversationSettings): SamplingParams {
  return withOverrides(defaults, settings.sampling);
}

/** The note of a group on the effect of other parameters. `null` means none. */
export function note(group: GroupId, s: SamplingParams): string | null {
  const greedy = s.temperature === 0;
  const draws = greedy ? m.knob_note_greedy() : s.mirostat ? m.knob_note_mirostat() : null;
  switch (group) {
    case "length":
    case "bans":
    case "schema":
      return null;
    case "filters":
      return draws;
    case "xtc":
      return (
        draws ??
        (s.xtcProbability === 0
          ? m.knob_note_xtc_probability()
          : s.xtcThreshold > 0.5
            ? m.knob_note_xtc_threshold()
            : null)
      );
    case "dynatemp":
      return draws ?? (s.dynatempRange === 0 ? m.knob_note_dynatemp() : null);
    case "mirostat":
      if (greedy) return m.knob_note_greedy();
      return s.mirostat ? m.knob_note_mirostat_on() : null;
    case "penalties":
      return s.repeatLastN === 0 ? m.knob_note_window() : null;
    case "dry":
      return s.dryMultiplier === 0 ? m.knob_note_multiplier() : s.dryLastN === 0 ? m.knob_note_window() : null;
    case "seed":
      return greedy ? m.knob_note_seed() : null;
  }
}

/** The note on the effect of temperature 0 on other parameters; `null` at other temperatures. */
export function temperatureNote(s: SamplingParams): string | null {
  return s.temperature === 0 ? m.knob_note_temperature() : null;
}
