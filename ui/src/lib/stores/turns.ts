// Runs tasks one after the other, so that the app receives changes in the order in which they were
// made.

export class Turns {
  private last: Promise<unknown> = Promise.resolve();

  /** Runs a task once all earlier tasks have ended, with or without an error. */
  run<T>(task: () => Promise<T>): Promise<T> {
    const mine = this.last.then(task, task);
    this.last = mine;
    return mine;
  }
}
