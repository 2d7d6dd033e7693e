// The modifier key of shortcuts: Command on Apple's machines, Control elsewhere.

const apple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

export function isShortcut(event: KeyboardEvent): boolean {
  return (apple ? event.metaKey && !event.ctrlKey : event.ctrlKey && !event.metaKey) && !event.altKey;
}

/** `Ctrl K` or `⌘K` */
export function shortcut(key: string): string {
  return apple ? `⌘${key}` : `Ctrl ${key}`;
}
