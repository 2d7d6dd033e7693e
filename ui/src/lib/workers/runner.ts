// Runs jobs in a worker, one after the other, so that none of them stops the page. A worker whose job takes too long is ended.

export interface Request<Job> {
  id: number;
  job: Job;
}

/** A message of a worker: its script is loaded, or a job has a result. */
export type Reply<Result> = { type: "ready" } | { type: "done"; id: number; result: Result | null };

/** Milliseconds that a job may take. */
export interface Limits {
  first: number;
  /** One that took longer than `first` is tried once more when no other job waits; 0: never. */
  again: number;
}

/** Milliseconds until a worker's script must be loaded. */
const START_MS = 60_000;

type Worker = Pick<globalThis.Worker, "postMessage" | "terminate" | "onmessage" | "onmessageerror" | "onerror">;

interface Waiting<Job, Result> {
  job: Job;
  /** Whether it has taken longer than its first limit. */
  slow: boolean;
  done: (result: Result | null) => void;
  failed: (problem: Error) => void;
}

export class Runner<Job, Result> {
  private readonly queue: Waiting<Job, Result>[] = [];
  private readonly slow: Waiting<Job, Result>[] = [];
  private current: Waiting<Job, Result> | null = null;
  private worker: Worker | null = null;
  private ready = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private id = 0;

  constructor(
    private readonly start: () => Worker,
    private readonly limits: Limits,
  ) {}

  /** The result of a job; `null`: it has none, or took too long. Rejected if no worker could be started. */
  run(job: Job): Promise<Result | null> {
    return new Promise((done, failed) => {
      this.queue.push({ job, slow: false, done, failed });
      this.next();
    });
  }

  /** Withdraws a job that waits: its result never comes. Returns `false` if it does not wait. */
  withdraw(job: Job): boolean {
    for (const waiting of [this.queue, this.slow]) {
      const at = waiting.findIndex((one) => one.job === job);
      if (at < 0) continue;
      waiting.splice(at, 1);
      return true;
    }
    return false;
  }

  private next(): void {
    if (this.current) return;
    const waiting = this.queue.shift() ?? this.slow.shift();
    if (!waiting) return;
    this.current = waiting;
    try {
      this.worker ??= this.begin();
      this.limit();
      const request: Request<Job> = { id: ++this.id, job: waiting.job };
      this.worker.postMessage(request);
    } catch {
      this.fail();
    }
  }

  private begin(): Worker {
    this.ready = false;
    const worker = this.start();
    worker.onmessage = ({ data }: MessageEvent<Reply<Result>>) => {
      if (this.worker !== worker) return;
      if (data.type === "ready") this.begun();
      else if (data.id === this.id) this.finish(data.result);
    };
    worker.onmessageerror = () => {
      if (this.worker === worker) this.fail();
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (this.worker === worker) this.fail();
    };
    return worker;
  }

  /** The script is loaded, and only now does the time of its first job begin. */
  private begun(): void {
    this.ready = true;
    if (this.current) this.limit();
  }

  private limit(): void {
    clearTimeout(this.timer);
    const limit = !this.ready ? START_MS : this.current?.slow ? this.limits.again : this.limits.first;
    this.timer = setTimeout(() => (this.ready ? this.expire() : this.fail()), limit);
  }

  private expire(): void {
    const slow = this.current;
    if (!slow || slow.slow || this.limits.again === 0) return this.fail();
    slow.slow = true;
    this.slow.push(slow);
    this.current = null;
    this.end();
    this.next();
  }

  private fail(): void {
    const started = this.ready;
    this.end();
    if (started) return this.finish(null);
    // None of those that wait would have a worker either; a later one may.
    const waiting = [this.current, ...this.queue.splice(0), ...this.slow.splice(0)];
    this.current = null;
    for (const one of waiting) one?.failed(new Error("The worker could not be started."));
  }

  /** Ends the worker with whatever it does. */
  private end(): void {
    clearTimeout(this.timer);
    this.worker?.terminate();
    this.worker = null;
    this.ready = false;
  }

  private finish(result: Result | null): void {
    clearTimeout(this.timer);
    const finished = this.current;
    this.current = null;
    finished?.done(result);
    this.next();
  }
}
