// The worker's side of a `Runner`.

import type { Reply, Request } from "./runner";

/** Answers each job with what `work` makes of it; `null`: nothing, as when it throws. */
export function serve<Job, Result>(work: (job: Job) => Result | null): void {
  const post = (reply: Reply<Result>) => self.postMessage(reply);
  self.onmessage = ({ data }: MessageEvent<Request<Job>>) => {
    try {
      post({ type: "done", id: data.id, result: work(data.job) });
    } catch {
      // The job is not possible, or its result is nested too deep to be sent.
      post({ type: "done", id: data.id, result: null });
    }
  };
  post({ type: "ready" });
}
