// Workers that a test answers for.

import type { Reply, Request } from "../../src/lib/workers/runner";

export class FakeWorker<Job> {
  onmessage: Worker["onmessage"] = null;
  onmessageerror: Worker["onmessageerror"] = null;
  onerror: Worker["onerror"] = null;
  requests: Request<Job>[] = [];
  ended = false;

  postMessage(request: Request<Job>): void {
    this.requests.push(request);
  }

  terminate(): void {
    this.ended = true;
  }

  ready(): void {
    this.say({ type: "ready" });
  }

  reply(result: unknown, id = this.requests.at(-1)?.id ?? 0): void {
    this.say({ type: "done", id, result });
  }

  private say(data: Reply<unknown>): void {
    this.onmessage?.call(this as unknown as Worker, { data } as MessageEvent);
  }
}

export class FakeWorkers<Job> {
  readonly all: FakeWorker<Job>[] = [];

  readonly start = (): Worker => {
    const worker = new FakeWorker<Job>();
    this.all.push(worker);
    return worker as unknown as Worker;
  };

  get last(): FakeWorker<Job> {
    const last = this.all.at(-1);
    if (!last) throw new Error("No worker was started.");
    return last;
  }

  /** The jobs of all workers. */
  get jobs(): Job[] {
    return this.all.flatMap(({ requests }) => requests.map(({ job }) => job));
  }
}
