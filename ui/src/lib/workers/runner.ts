// Runs jobs in a web worker, one at a time, so that they do not block the page. A worker whose job
// exceeds its time limit is terminated.

export interface Request<Job> {
  id: number;
  job: Job;
}

/** A message from the worker: its script is loaded, or a job is done. */
export type Reply<Result> = { type: "ready" } | { type: "done"; id: number; result: Result | null };

/** Time limits of a job in milliseconds. */
export interface Limits {
  first: number;
  /**
   * Limit of a second attempt after a timeout, made when no other job waits; 0: no second
   * attempt.
   */
  retry: number;
}

/** Time limit for loading the script of the worker, in milliseconds. */
const START_MS = 60_000;

type Worker = Pick<globalThis.Worker, "postMessage" | "terminate" | "onmessage" | "onmessageerror" | "onerror">;

interface Waiting<Job, Result> {
  job: Job;
  /** Whether the first attempt timed out. */
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

  /**
   * Resolves to the result of a job; `null` if it failed or timed out. Rejects if no worker could
   * be started.
   */
  run(job: Job): Promise<Result | null> {
    return new Promise((done, failed) => {
      this.queue.push({ job, slow: false, done, failed });
      this.next();
    });
  }

  /**
   * Removes a waiting job, whose promise then never settles. Returns `false` if the job is not
   * waiting.
   */
  withdraw(job: Job): boolean {
    for (const waiting of [this.queue, this.slow]) {
      const at = waiting.findIndex((entry) => entry.job === job);
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
      this.worker ??= this.startWorker();
      this.limit();
      const request: Request<Job> = { id: ++this.id, job: waiting.job };
      this.worker.postMessage(request);
    } catch {
      this.fail();
    }
  }

  private startWorker(): Worker {
    this.ready = false;
    const worker = this.start();
    worker.onmessage = ({ data }: MessageEvent<Reply<Result>>) => {
      if (this.worker !== worker) return;
      if (data.type === "ready") this.onReady();
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

  /** The script is loaded: the time limit of the first job starts now. */
  private onReady(): void {
    this.ready = true;
    if (this.current) this.limit();
  }

  private limit(): void {
    clearTimeout(this.timer);
    const limit = !this.ready ? START_MS : this.current?.slow ? this.limits.retry : this.limits.first;
    this.timer = setTimeout(() => (this.ready ? this.expire() : this.fail()), limit);
  }

  private expire(): void {
    const slow = this.current;
    if (!slow || slow.slow || this.limits.retry === 0) return this.fail();
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
    // The waiting jobs would fail too. A later job starts a new worker.
    const waiting = [this.current, ...this.queue.splice(0), ...this.slow.splice(0)];
    this.current = null;
    for (const entry of waiting) entry?.failed(new Error("The worker could not be started."));
  }

  /** Terminates the worker. */
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
