// Device check results of the fake machines, and the ranking of builds by them.

import { turnSeconds } from "../../text/backends";
import type { BackendOption, Device, DeviceCheck } from "../wire";

function passed(bytesPerSecond: number, macsPerSecond: number): DeviceCheck {
  return { mismatch: null, bytesPerSecond, macsPerSecond };
}

function failed(how: string): DeviceCheck {
  return { mismatch: `Its driver's results differ from the CPU's: ${how}.`, bytesPerSecond: 0, macsPerSecond: 0 };
}

/** By device identity and build. */
const results: Record<string, Record<string, DeviceCheck>> = {
  cpu: { portable: passed(61.3e9, 0.84e12) },
  "0000:01:00.0": { cuda: passed(447e9, 24.6e12), vulkan: passed(431e9, 18.2e12), portable: passed(352e9, 4.1e12) },
  "0000:00:02.0": { portable: passed(52.8e9, 0.47e12) },
  "0000:0a:00.0": { rocm: passed(561e9, 27.4e12), vulkan: failed("the answers of a sample of llama with a cache in F16 are off by 38.2 %"), portable: passed(487e9, 5.2e12) },
  "0000:03:00.0": { portable: failed("a sample learns otherwise, by 12.4 %") },
  llvmpipe: { portable: passed(2.4e9, 3.1e9) },
};

/** Unchecked backends of a device, in the order of builds. */
export function unchecked(backends: readonly [build: string, backend: string][]): BackendOption[] {
  return backends.map(([build, backend]) => ({ build, backend, check: null }));
}

/** A device after its check: backends sorted by speed, mismatches last; unusable if every build mismatches. */
export function checked(device: Device): Device {
  const backends = device.backends.map((option) => ({ ...option, check: results[device.identity]?.[option.build] ?? option.check }));
  const seconds = (option: BackendOption) => (option.check === null ? Number.MAX_VALUE : option.check.mismatch === null ? turnSeconds(option.check) : Number.POSITIVE_INFINITY);
  backends.sort((a, b) => (seconds(a) === seconds(b) ? 0 : seconds(a) - seconds(b)));
  const [best] = backends;
  const why = best?.check?.mismatch ?? null;
  return { ...device, backends, backend: best?.backend ?? "", ...(why === null ? {} : { usable: false, why }) };
}
