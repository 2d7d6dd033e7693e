// Owns the keys that are held in a field, so that work can wait for their release.

export class HeldKeys {
  private readonly held = new Set<string>();
  private task: (() => void) | null = null;

  press({ code, metaKey }: Pick<KeyboardEvent, "code" | "metaKey">): void {
    // Apple's systems do not report the release of a key that was pressed with Command.
    if (!metaKey) this.held.add(code);
  }

  release({ code, key }: Pick<KeyboardEvent, "code" | "key">): void {
    if (key === "Meta") this.held.clear();
    else this.held.delete(code);
    this.runTask();
  }

  /** Forgets the keys when the field loses the focus: their release is not reported there. */
  releaseAll(): void {
    this.held.clear();
    this.runTask();
  }

  /** Runs a task once no key is held. A newer one replaces it. Returns a function that cancels it. */
  whenReleased(task: () => void): () => void {
    this.task = task;
    this.runTask();
    return () => {
      if (this.task === task) this.task = null;
    };
  }

  private runTask(): void {
    if (this.held.size > 0) return;
    const { task } = this;
    this.task = null;
    task?.();
  }
}
