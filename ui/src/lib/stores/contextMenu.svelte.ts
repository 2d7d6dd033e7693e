// Owns the open context menu, and the elements that have one.

import type { Action, Box } from "../shell/menu";

export interface MenuContents {
  /** The accessible name of the menu. */
  label: string;
  actions: readonly Action[];
}

export interface OpenedMenu extends MenuContents {
  at: Box;
  /** The element whose menu it is. */
  owner: Element | null;
}

export class ContextMenu {
  opened: OpenedMenu | null = $state.raw(null);
  private readonly owners = new Map<Element, () => MenuContents | null>();

  /** Returns an attachment for an element with this menu, whose actions are read when it opens. */
  of(contents: () => MenuContents | null): (element: Element) => () => void {
    return (element) => {
      this.owners.set(element, contents);
      return () => {
        this.owners.delete(element);
        if (this.opened?.owner === element) this.opened = null;
      };
    };
  }

  /**
   * The nearest element with a menu: this one, one around it, or the only one in this article, since
   * articles have the focus while the user moves between messages. A dialog does not have the menu
   * of an element around it.
   */
  ownerOf(element: Element): Element | null {
    for (let at: Element | null = element; at; at = at.parentElement) {
      if (this.owners.has(at)) return at;
      if (at.matches("dialog")) return null;
    }
    if (!element.matches("article")) return null;
    const within = [...this.owners.keys()].filter((owner) => element.contains(owner));
    return within.length === 1 ? (within[0] ?? null) : null;
  }

  contentsOf(owner: Element | null): MenuContents | null {
    return (owner && this.owners.get(owner)?.()) ?? null;
  }

  open(menu: OpenedMenu): void {
    this.opened = menu.actions.length > 0 ? menu : null;
  }
}
