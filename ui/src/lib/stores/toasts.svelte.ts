// Owns the toasts: actions that can be undone, and problems.

export interface Toast {
  id: number;
  text: string;
  kind: "note" | "problem";
  action?: { label: string; run: () => void };
}

/** Notes that are shown at once, and problems, which stay until they are dismissed. */
const MAX = { note: 3, problem: 20 };

export class Toasts {
  all: readonly Toast[] = $state.raw([]);
  private next = 1;

  /** Shows a toast at the end. One with the same text and no action is shown once. */
  show(toast: Omit<Toast, "id">): void {
    const duplicate = this.all.find((t) => t.text === toast.text && !t.action);
    const all = [...this.all.filter((t) => t !== duplicate), { ...toast, id: this.next++ }];
    const same = all.filter(({ kind }) => kind === toast.kind);
    this.all = same.length > MAX[toast.kind] ? all.filter((t) => t !== same[0]) : all;
  }

  dismiss(id: number): void {
    this.all = this.all.filter((t) => t.id !== id);
  }

  /** Dismisses the toasts with a text. */
  withdraw(text: string): void {
    this.all = this.all.filter((t) => t.text !== text);
  }

  dismissProblems(): void {
    this.all = this.all.filter(({ kind }) => kind !== "problem");
  }
}
