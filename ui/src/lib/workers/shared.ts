// Jobs that run once for all callers that want the result.

interface SharedJob<Job, Result> {
  job: Job;
  result: Promise<Result>;
  /** Number of callers that await the result. */
  waiting: number;
}

export class Shared<Job, Result> {
  private readonly jobs = new Map<string, SharedJob<Job, Result>>();

  /** `withdraw` removes a job from the queue; it returns `false` if the job has started. */
  constructor(
    private readonly start: (job: Job, name: string) => Promise<Result>,
    private readonly withdraw: (job: Job) => boolean,
  ) {}

  /** Returns the result of the job with this name, starting it if necessary. The job is withdrawn once the
   * signals of all its callers have aborted. */
  get(name: string, job: Job, signal?: AbortSignal): Promise<Result> {
    const shared = this.jobs.get(name) ?? this.add(name, job);
    shared.waiting++;
    signal?.addEventListener("abort", () => {
      shared.waiting--;
      if (shared.waiting === 0 && this.withdraw(shared.job)) this.remove(name, shared);
    });
    return shared.result;
  }

  private add(name: string, job: Job): SharedJob<Job, Result> {
    const shared = { job, result: this.start(job, name).finally(() => this.remove(name, shared)), waiting: 0 };
    this.jobs.set(name, shared);
    return shared;
  }

  private remove(name: string, shared: SharedJob<Job, Result>): void {
    if (this.jobs.get(name) === shared) this.jobs.delete(name);
  }
}
