// What checking the devices of the scripted machines finds, and how the builds that can use each are ranked by it.

import { turnSeconds } from "../../text/ways";
import type { Device, DeviceCheck, DeviceWay } from "../wire";

function right(bytesPerSecond: number, productsPerSecond: number): DeviceCheck {
  return { wrong: null, bytesPerSecond, productsPerSecond };
}

function wrong(how: string): DeviceCheck {
  return { wrong: `Its driver computes something else than the processor does: ${how}.`, bytesPerSecond: 0, productsPerSecond: 0 };
}

/** By a device's identity and the build that uses it. */
const found: Record<string, Record<string, DeviceCheck>> = {
  cpu: { portable: right(61.3e9, 0.84e12) },
  "0000:01:00.0": { cuda: right(447e9, 24.6e12), vulkan: right(431e9, 18.2e12), portable: right(352e9, 4.1e12) },
  "0000:00:02.0": { portable: right(52.8e9, 0.47e12) },
  "0000:0a:00.0": { rocm: right(561e9, 27.4e12), vulkan: wrong("the answers of a sample of llama with a cache in F16 are off by 38.2 %"), portable: right(487e9, 5.2e12) },
  "0000:03:00.0": { portable: wrong("a sample learns otherwise, by 12.4 %") },
  llvmpipe: { portable: right(2.4e9, 3.1e9) },
};

/** Ways of using a device that nobody has checked, in the order of builds. */
export function unchecked(ways: readonly [build: string, backend: string][]): DeviceWay[] {
  return ways.map(([build, backend]) => ({ build, backend, check: null }));
}

/** A device as it is once it was checked: the fastest build that is right leads; one that no build is right on is not used. */
export function checked(device: Device): Device {
  const ways = device.ways.map((way) => ({ ...way, check: found[device.identity]?.[way.build] ?? way.check }));
  const seconds = (way: DeviceWay) => (way.check === null ? Number.MAX_VALUE : way.check.wrong === null ? turnSeconds(way.check) : Number.POSITIVE_INFINITY);
  ways.sort((a, b) => (seconds(a) === seconds(b) ? 0 : seconds(a) - seconds(b)));
  const [best] = ways;
  const why = best?.check?.wrong ?? null;
  return { ...device, ways, backend: best?.backend ?? "", ...(why === null ? {} : { usable: false, why }) };
}
