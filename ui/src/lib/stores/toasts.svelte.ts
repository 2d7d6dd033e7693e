// Owns the toasts: actions that can be undone, and problems.

export interface Toast {
  id: number;
  text: string;
  kind: "note" | "problem";
  action?: { label: string; run: () => void };
}

export class Toasts {
  all: readonly Toast[] = $state.raw([]);
  private next = 1;

  show(toast: Omit<Toast, "id">): void {
    const duplicate = this.all.find((t) => t.text === toast.text && !t.action);
    this.all = [...this.all.filter((t) => t !== duplicate), { ...toast, id: this.next++ }].slice(-3);
  }

  dismiss(id: number): void {
    this.all = this.all.filter((t) => t.id !== id);
  }
}
