// Owns the short notes in the corner: what was done and can be undone, and what went wrong.

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
    const twin = this.all.find((t) => t.text === toast.text && !t.action);
    this.all = [...this.all.filter((t) => t !== twin), { ...toast, id: this.next++ }].slice(-3);
  }

  dismiss(id: number): void {
    this.all = this.all.filter((t) => t.id !== id);
  }
}
