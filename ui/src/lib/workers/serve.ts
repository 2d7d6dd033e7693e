// The worker's side of a `Runner`.

import type { Reply, Request } from "./runner";

/** Replies to each job with the result of `work`; `null` if it throws. */
export function serve<Job, Result>(work: (job: Job) => Result | null): void {
  const post = (reply: Reply<Result>) => self.postMessage(reply);
  self.onmessage = ({ data }: MessageEvent<Request<Job>>) => {
    try {
      post({ type: "done", id: data.id, result: work(data.job) });
    } catch {
      // The job failed, or its result is nested too deeply to be cloned.
      post({ type: "done", id: data.id, result: null });
    }
  };
  post({ type: "ready" });
}
