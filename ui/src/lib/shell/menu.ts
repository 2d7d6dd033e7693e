// The actions of a menu, and the places of menus and tooltips in the window.

export interface Action {
  label: string;
  run: () => void;
  testid?: string;
  /** The key that does the same in the list, as shown. */
  key?: string;
  danger?: boolean;
  disabled?: boolean;
  /** Whether a line divides it from the actions above. */
  divided?: boolean;
}

/** The actions of groups, each of which is divided from the one before it. */
export function grouped(...groups: readonly (readonly Action[])[]): Action[] {
  return groups
    .filter((group) => group.length > 0)
    .flatMap((group, at) => group.map((action, i) => (at > 0 && i === 0 ? { ...action, divided: true } : action)));
}

/** Edges in pixels of the window. The opposite edges of a point are equal. */
export type Box = Pick<DOMRect, "left" | "right" | "top" | "bottom">;

export interface Size {
  width: number;
  height: number;
}

type Place = { left: number; top: number };

/** Minimum distance from the edges of the window. */
const EDGE = 8;

/** A menu's place: below a box from its start, or above it if there is no space below. */
export function placeMenu(at: Box, size: Size, window: Size, options: { gap: number; rtl: boolean }): Place {
  const { gap, rtl } = options;
  const isBelow = at.bottom + gap + size.height <= window.height;
  const start = rtl ? at.right - size.width : at.left;
  return {
    left: within(start, size.width, window.width),
    top: within(isBelow ? at.bottom + gap : at.top - gap - size.height, size.height, window.height),
  };
}

/**
 * A tooltip's place: above a box, centered at `x`, or below, or beside it. `null` if it would cover
 * the box everywhere.
 */
export function placeTip(at: Box, size: Size, window: Size, options: { gap: number; x: number }): Place | null {
  const { gap, x } = options;
  const left = within(x - size.width / 2, size.width, window.width);
  if (at.top - gap - size.height >= EDGE) return { left, top: at.top - gap - size.height };
  if (at.bottom + gap + size.height <= window.height - EDGE) return { left, top: at.bottom + gap };
  const top = within((at.top + at.bottom - size.height) / 2, size.height, window.height);
  if (at.right + gap + size.width <= window.width - EDGE) return { left: at.right + gap, top };
  if (at.left - gap - size.width >= EDGE) return { left: at.left - gap - size.width, top };
  return null;
}

const within = (start: number, size: number, all: number) => Math.max(EDGE, Math.min(start, all - size - EDGE));
