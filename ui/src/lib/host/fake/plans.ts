// Memory plans of the fake host, recorded from the engine (recordings/plans.json, whose format is
// documented in crates/cli/tests/recordings/plans.rs). A context that was not recorded is answered
// with the longest recorded one below it, or else the shortest; more layers than the model has,
// with all; an added model, with the recorded "added" one. A draft model's memory is not recorded:
// the bytes of its file are added to the last device.

import { matchesDevice } from "../../text/devices";
import type { GpuLayers, KvType, LoadSettings, Model, Notice, Plan, PlannedDevice, Problem, Verdict } from "../wire";
import { checkedIds } from "./checks";
import type { Machine } from "./devices";
import { detailed, noSuchDevice } from "./problems";
import recording from "./recordings/plans.json?raw";

type Index = number;
/** Plans for automatic layers, for all, and for 0, 1, 2 … layers; or the only one. */
type Row = Index | Index[];

interface Recording {
  devices: [id: string, identity: string, name: string, margin: number, total: number | null, free: number | null][];
  reasons: [Verdict, Notice[]][];
  plans: [
    fits: boolean,
    reason: Index,
    context: number,
    contextFits: number,
    gpuLayers: number,
    layersTotal: number,
    layersFit: number,
    kv: KvType,
    devices: [device: Index, weights: number, kv: number, compute: number, fits: boolean, layers: string][],
  ][];
  loads: Record<KvType, Record<string, Row>>[];
  machines: Record<string, Record<string, Record<string, Record<string, Index | Problem>>>>;
}

const { devices: recorded, reasons, plans, loads, machines } = JSON.parse(recording) as Recording;

/**
 * The engine's plan of a model on a machine.
 *
 * @throws Problem the engine's, for a device that cannot be used; or if nothing was recorded.
 */
export function planFor(
  model: Model,
  load: LoadSettings,
  { machine, devices: all }: Machine,
  library: readonly Model[],
): Plan {
  const missing = detailed("notFound", `No plan of ${model.name} on this machine was recorded.`);
  const device =
    load.device === null ? "" : (all.find((d) => matchesDevice(load.device ?? "", d))?.identity ?? load.device);
  const recordings = machines[machine]?.[checkedIds(all)];
  if (recordings && !(device in recordings)) throw noSuchDevice(device, all);
  const models = recordings?.[device];
  const recording = models?.[model.id] ?? models?.added;
  if (typeof recording === "object") throw recording;
  const row = nearest(loads[recording ?? -1]?.[load.kv] ?? {}, load.context);
  const index = typeof row === "object" ? row[column(load.gpuLayers, row.length)] : row;
  const plan = index === undefined ? undefined : decoded(index);
  if (!plan) throw missing;
  const used = plan.devices.find((d) => d.id !== "cpu");
  const chosen = load.draft.type === "model" ? load.draft.model : null;
  const draft = library.find(({ id }) => id === chosen && model.drafts.includes(id));
  const last = plan.devices.at(-1);
  if (last && draft) last.draft = draft.fileSize;
  return { ...plan, build: load.build ?? all.find((d) => d.id === used?.id)?.backends[0]?.build ?? "portable" };
}

function nearest(rows: Record<string, Row>, context: number | null): Row | undefined {
  if (context === null) return rows.auto;
  const recorded = Object.keys(rows)
    .filter((key) => key !== "auto")
    .map(Number)
    .sort((a, b) => a - b);
  return rows[String(recorded.findLast((tokens) => tokens <= context) ?? recorded[0])];
}

function column(layers: GpuLayers, columns: number): number {
  if (layers.type === "auto") return 0;
  return layers.type === "all" ? 1 : Math.min(layers.count + 2, columns - 1);
}

function decoded(index: Index): Plan | undefined {
  const plan = plans[index];
  if (!plan) return undefined;
  const [fits, reason, context, contextFits, gpuLayers, layersTotal, layersFit, kv, placement] = plan;
  const devices = placement.flatMap(decodedDevice);
  const device =
    devices
      .slice(1)
      .map(({ id }) => id)
      .join(",") || "cpu";
  const [verdict, notices] = reasons[reason] ?? [{ type: "wontFit" }, []];
  return {
    fits,
    verdict,
    notices,
    context,
    contextFits,
    gpuLayers,
    layersTotal,
    layersFit,
    kv,
    devices,
    build: "portable",
    program: null,
    device,
    turnSeconds: null,
    tokensPerSecond: null,
  };
}

function decodedDevice([
  at,
  weights,
  kv,
  compute,
  fits,
  layers,
]: Recording["plans"][number][8][number]): PlannedDevice[] {
  const [id, identity, name, margin, total, free] = recorded[at] ?? [];
  if (
    id === undefined ||
    identity === undefined ||
    name === undefined ||
    margin === undefined ||
    total === undefined ||
    free === undefined
  )
    return [];
  return [
    {
      id,
      identity,
      name,
      weights,
      kv,
      snapshots: 0,
      draft: 0,
      compute,
      margin,
      total,
      free,
      layers: layers.split(" ").flatMap(names),
      fits,
    },
  ];
}

/** `0-2` stands for `blk.0`, `blk.1` and `blk.2`. */
function names(part: string): string[] {
  const [first, last] = part.split("-").map(Number);
  if (part === "") return [];
  if (first === undefined || last === undefined) return [part];
  return Array.from({ length: last - first + 1 }, (_, i) => `blk.${first + i}`);
}
