// Runs tasks one after the other, so that the app is told of changes in the order in which they were made.

export class Turns {
  private last: Promise<unknown> = Promise.resolve();

  /** Runs a task once those before it have ended, whether or not they failed. */
  run<T>(task: () => Promise<T>): Promise<T> {
    const mine = this.last.then(task, task);
    this.last = mine;
    return mine;
  }
}
