// Sampling parameters and their overrides.

import type { SamplingOverrides, SamplingParams } from "../host";

/** The overrides that are set. */
export function onlySet(overrides: SamplingOverrides): Partial<SamplingParams> {
  return Object.fromEntries(Object.entries(overrides).filter(([, value]) => value !== null));
}

/** The parameters with the set overrides applied. */
export function withOverrides(params: SamplingParams, overrides: SamplingOverrides | null | undefined): SamplingParams {
  return overrides ? { ...params, ...onlySet(overrides) } : params;
}
