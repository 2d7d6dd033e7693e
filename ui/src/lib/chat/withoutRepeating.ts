// The sampling parameters of an answer that is to repeat itself less than the one before.

import { defaultChatSettings, type SamplingOverrides } from "../host";

/**
 * DRY, which makes the continuation of a repeated sequence unlikely. By default it sees too little
 * for a loop of verses: 64 tokens, and none beyond a line break.
 */
export const withoutRepeating: SamplingOverrides = {
  ...defaultChatSettings.sampling,
  dryMultiplier: 0.8,
  dryAllowedLength: 2,
  dryLastN: 4096,
  dryBreakers: [],
};
