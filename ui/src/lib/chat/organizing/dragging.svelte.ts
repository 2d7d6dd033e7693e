// Drags a conversation onto a folder with pointer events: in the desktop window, native drag and
// drop is reserved for files.

import type { ConversationSummary } from "../../host";

/** A drop target: the id of a folder, or no folder. */
export type Place = number | "none";

/** Pixels of pointer movement that start a drag. */
const SLOP = 6;
/** Width of the edge in which the list scrolls, and the scroll step, both in pixels. */
const EDGE = 36;
const SCROLL = 12;

export class Dragging {
  dragged: ConversationSummary | null = $state.raw(null);
  at = $state.raw({ x: 0, y: 0 });
  /** The target below the pointer, if the conversation can be dropped there. */
  over: Place | null = $state(null);

  constructor(private readonly ondrop: (conversation: ConversationSummary, folder: number | null) => void) {}

  /** Follows the pointer from a press on a conversation. */
  press(event: PointerEvent, element: HTMLElement, conversation: ConversationSummary): void {
    // Touch scrolls the list.
    if (event.button !== 0 || event.pointerType === "touch") return;
    const from = { x: event.clientX, y: event.clientY };
    const ending = new AbortController();
    const end = (): void => {
      ending.abort();
      this.dragged = null;
      this.over = null;
    };
    const options = { signal: ending.signal, capture: true };
    const move = (moved: PointerEvent): void => {
      if (!this.dragged && Math.hypot(moved.clientX - from.x, moved.clientY - from.y) < SLOP) return;
      if (!this.dragged) element.setPointerCapture(moved.pointerId);
      this.dragged = conversation;
      this.at = { x: moved.clientX, y: moved.clientY };
      this.scroll(element, moved.clientY);
      this.over = placeBelow(moved, conversation);
    };
    const drop = (): void => {
      const { over, dragged } = this;
      end();
      if (!dragged) return;
      swallowClick();
      if (over !== null) this.ondrop(conversation, over === "none" ? null : over);
    };
    const key = (pressed: KeyboardEvent): void => {
      if (pressed.key !== "Escape" || !this.dragged) return;
      pressed.preventDefault();
      pressed.stopImmediatePropagation();
      end();
      swallowClick();
    };
    window.addEventListener("pointermove", move, options);
    window.addEventListener("pointerup", drop, options);
    window.addEventListener("pointercancel", end, options);
    window.addEventListener("keydown", key, options);
  }

  private scroll(element: HTMLElement, y: number): void {
    const list = element.closest("[data-testid=conversations]");
    if (!list) return;
    const { top, bottom } = list.getBoundingClientRect();
    if (y < top + EDGE) list.scrollBy(0, -SCROLL);
    else if (y > bottom - EDGE) list.scrollBy(0, SCROLL);
  }
}

function placeBelow({ clientX, clientY }: PointerEvent, { folder }: ConversationSummary): Place | null {
  const place = document.elementFromPoint(clientX, clientY)?.closest<HTMLElement>("[data-drop]")?.dataset["drop"];
  if (place === undefined) return null;
  const found = place === "none" ? "none" : Number(place);
  return found === (folder ?? "none") ? null : found;
}

/** Suppresses the click on the dragged button at the end of a drag. */
function swallowClick(): void {
  const swallow = (event: MouseEvent): void => {
    event.preventDefault();
    event.stopPropagation();
  };
  window.addEventListener("click", swallow, { capture: true, once: true });
  setTimeout(() => window.removeEventListener("click", swallow, { capture: true }));
}
