// A browser's own drags, told as the desktop tells them; a browser does not say where a file lies.

import type { FakeTuning } from "./tuning";

export function passOn(host: FakeTuning): void {
  const files = (event: DragEvent) => [...(event.dataTransfer?.files ?? [])].map((file) => `/home/you/${file.name}`);
  window.addEventListener("dragenter", () => host.drop({ type: "over", paths: [] }));
  window.addEventListener("dragover", (event) => event.preventDefault());
  window.addEventListener("dragleave", (event) => event.relatedTarget === null && host.drop({ type: "leave" }));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    host.drop({ type: "drop", paths: files(event) });
  });
}
