// Owns the runs and their curves.

import { SvelteMap } from "svelte/reactivity";
import type { Host, Announced, Run, RunEvaluation, RunPoint } from "../host";
import { nextFrame, type Schedule } from "./live.svelte";
import { Reading } from "./reading";

/** Whether a run is active in a worker. */
export function isUnderWay(run: Run): boolean {
  const type = run.state.type;
  return type === "preparing" || type === "planned" || type === "running" || type === "paused";
}

/** The curve of a run, in the order of steps. The lists are replaced, never mutated. */
export class Curve {
  points: readonly RunPoint[] = $state.raw([]);
  evaluations: readonly RunEvaluation[] = $state.raw([]);
}

/** Points received since the last frame. */
interface Received {
  points: RunPoint[];
  evaluations: RunEvaluation[];
}

/** After a resume from a checkpoint, steps are repeated: the newest ones replace the old. */
function append<T extends { step: number }>(current: readonly T[], added: readonly T[]): T[] {
  const first = added[0]?.step ?? Infinity;
  const unchanged = (current.at(-1)?.step ?? -1) < first ? current : current.filter((item) => item.step < first);
  return [...unchanged, ...added];
}

export class Runs {
  all: readonly Run[] = $state.raw([]);
  private readonly curves = new SvelteMap<number, Curve>();
  private readonly received = new Map<number, Received>();
  private waiting = false;
  private readonly reading = new Reading((event) => {
    if (event.type === "runChanged") this.put(event.run);
    else if (event.type === "runRemoved") this.all = this.all.filter((run) => run.id !== event.id);
  });

  /** The active run; there is at most one. */
  readonly current: Run | null = $derived(this.all.find(isUnderWay) ?? null);

  /** The runs whose end the user has not seen. */
  readonly unseen: readonly Run[] = $derived(this.all.filter((run) => !run.seen));

  constructor(
    private readonly host: Host,
    private readonly schedule: Schedule = nextFrame,
  ) {}

  async load(): Promise<void> {
    await this.reading.read(
      this.host,
      (host) => host.runs(),
      (runs) => (this.all = runs),
    );
  }

  get(id: number): Run | null {
    return this.all.find((run) => run.id === id) ?? null;
  }

  /** The known part of a curve; {@link fetch} gets the rest. */
  curve(id: number): Curve | null {
    return this.curves.get(id) ?? null;
  }

  /** Fetches a run's curve, once. */
  async fetch(id: number): Promise<void> {
    if (this.curves.has(id)) return;
    const curve = new Curve();
    this.curves.set(id, curve);
    try {
      const fetched = await this.host.runPoints(id);
      // Points that arrived by events meanwhile follow.
      curve.points = append(fetched.points, curve.points);
      curve.evaluations = append(fetched.evaluations, curve.evaluations);
    } catch (error) {
      this.curves.delete(id);
      throw error;
    }
  }

  /** The run with its new name comes as an event. */
  async rename(id: number, name: string): Promise<void> {
    const clean = name.trim();
    const run = this.get(id);
    if (run && clean !== "" && clean !== run.name) await this.host.renameRun(id, clean);
  }

  /** Marks the end of a run as seen. */
  async see(id: number): Promise<void> {
    await this.host.seeRun(id);
  }

  async remove(id: number): Promise<void> {
    await this.host.deleteRun(id);
    this.all = this.all.filter((run) => run.id !== id);
  }

  put(run: Run): void {
    const isListed = this.all.some((other) => other.id === run.id);
    this.all = isListed
      ? this.all.map((other) => (other.id === run.id ? run : other))
      : [run, ...this.all].sort((a, b) => b.createdAt - a.createdAt);
  }

  handle(event: Announced): void {
    this.reading.handle(event);
    if (event.type === "runPoint") this.note(event.run, (received) => received.points.push(event.point));
    else if (event.type === "runEvaluated")
      this.note(event.run, (received) => received.evaluations.push(event.evaluation));
  }

  private note(run: number, add: (received: Received) => void): void {
    const received = this.received.get(run) ?? { points: [], evaluations: [] };
    this.received.set(run, received);
    add(received);
    if (this.waiting) return;
    this.waiting = true;
    this.schedule(() => this.flush());
  }

  /** Shows the points received since the last frame. */
  private flush(): void {
    this.waiting = false;
    for (const [id, { points, evaluations }] of this.received) {
      const curve = this.curves.get(id);
      if (!curve) continue;
      if (points.length > 0) curve.points = append(curve.points, points);
      if (evaluations.length > 0) curve.evaluations = append(curve.evaluations, evaluations);
    }
    this.received.clear();
  }
}
