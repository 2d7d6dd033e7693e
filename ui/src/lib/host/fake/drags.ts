// Forwards the browser's drag events like the desktop's. A browser does not reveal a file's path.

import type { FakeTuning } from "./tuning";

export function forwardDrags(host: FakeTuning): void {
  const files = (event: DragEvent) => [...(event.dataTransfer?.files ?? [])].map((file) => `/home/you/${file.name}`);
  window.addEventListener("dragenter", () => host.drop({ type: "over", paths: [] }));
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("dragleave", (event) => event.relatedTarget === null && host.drop({ type: "leave" }));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    host.drop({ type: "drop", paths: files(event) });
  });
}
