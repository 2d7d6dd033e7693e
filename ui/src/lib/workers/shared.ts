// Jobs that run once for all callers that want the result.

interface Wanted<Job, Result> {
  job: Job;
  result: Promise<Result>;
  /** Number of callers that wait for the result. */
  waiting: number;
}

export class Shared<Job, Result> {
  private readonly wanted = new Map<string, Wanted<Job, Result>>();

  /** `withdraw` takes back a job that was not begun; `false`: it was. */
  constructor(
    private readonly begin: (job: Job, name: string) => Promise<Result>,
    private readonly withdraw: (job: Job) => boolean,
  ) {}

  /** The result of the job of a name. It is withdrawn once all who wanted it have `left`. */
  get(name: string, job: Job, left?: AbortSignal): Promise<Result> {
    const wanted = this.wanted.get(name) ?? this.add(name, job);
    wanted.waiting++;
    left?.addEventListener("abort", () => {
      wanted.waiting--;
      if (wanted.waiting === 0 && this.withdraw(wanted.job)) this.remove(name, wanted);
    });
    return wanted.result;
  }

  private add(name: string, job: Job): Wanted<Job, Result> {
    const wanted = { job, result: this.begin(job, name).finally(() => this.remove(name, wanted)), waiting: 0 };
    this.wanted.set(name, wanted);
    return wanted;
  }

  private remove(name: string, wanted: Wanted<Job, Result>): void {
    if (this.wanted.get(name) === wanted) this.wanted.delete(name);
  }
}
