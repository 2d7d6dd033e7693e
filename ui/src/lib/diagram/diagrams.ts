// Owns the diagrams that were drawn and the worker that draws them, which is started with the first one.

import type { Drawing } from "./drawing";
import type { DrawReply, DrawRequest } from "./worker";

/** A diagram that takes longer (in ms) is shown as its source. */
const TIMEOUT_MS = 4_000;
const MAX_CACHED = 60;

type Worker = Pick<globalThis.Worker, "postMessage" | "terminate" | "onmessage" | "onerror">;

interface Job {
  source: string;
  done: (drawing: Drawing | null) => void;
}

export class Diagrams {
  private readonly cache = new Map<string, Promise<Drawing | null>>();
  private readonly queue: Job[] = [];
  private worker: Worker | null = null;
  private current: Job | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private id = 0;

  constructor(private readonly start: () => Worker) {}

  /** The drawing of a source; `null`: it is shown as its source. */
  draw(source: string): Promise<Drawing | null> {
    const known = this.cache.get(source);
    if (known) return known;
    const drawing = new Promise<Drawing | null>((done) => this.queue.push({ source, done }));
    const oldest = this.cache.size >= MAX_CACHED ? this.cache.keys().next().value : undefined;
    if (oldest !== undefined) this.cache.delete(oldest);
    this.cache.set(source, drawing);
    this.next();
    return drawing;
  }

  private next(): void {
    if (this.current) return;
    const job = this.queue.shift();
    if (!job) return;
    this.current = job;
    this.timer = setTimeout(() => this.fail(), TIMEOUT_MS);
    try {
      this.worker ??= this.begin();
      const request: DrawRequest = { id: ++this.id, source: job.source };
      this.worker.postMessage(request);
    } catch {
      this.fail();
    }
  }

  private begin(): Worker {
    const worker = this.start();
    worker.onmessage = ({ data }: MessageEvent<DrawReply>) => {
      if (data.id === this.id) this.finish(data.drawing);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      this.fail();
    };
    return worker;
  }

  /** The worker is ended with whatever it does. */
  private fail(): void {
    this.worker?.terminate();
    this.worker = null;
    this.finish(null);
  }

  private finish(drawing: Drawing | null): void {
    clearTimeout(this.timer);
    const job = this.current;
    this.current = null;
    job?.done(drawing);
    this.next();
  }
}

export const diagrams = new Diagrams(() => new Worker(new URL("./worker.ts", import.meta.url), { type: "module" }));
