// Keys of shortcuts: read from key presses, checked, and shown. A key is written `Mod+Shift+K`; `Mod` is Command on
// Apple's machines and Control elsewhere.

export const apple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** The part of a `KeyboardEvent` that names a key. */
export type KeyPress = Pick<KeyboardEvent, "key" | "code" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">;

/** Modifiers in the order in which they are written. `Ctrl` is the Control key of Apple's machines. */
const MODIFIERS = ["Mod", "Ctrl", "Alt", "Shift"] as const;

/** Keys that are named like in a `KeyboardEvent`; others are one character. */
const NAMED = new Set(["Escape", "Enter", "Tab", "Backspace", "Delete", "Insert", "Home", "End", "PageUp", "PageDown", "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Space", "Plus", ...Array.from({ length: 24 }, (_, i) => `F${i + 1}`)]);

/** Keys that edit text everywhere, with what they do. */
const TAKEN: Record<string, string> = {
  "Mod+A": "selects all",
  "Mod+C": "copies",
  "Mod+V": "pastes",
  "Mod+X": "cuts",
  "Mod+Z": "undoes typing",
  "Mod+Shift+Z": "redoes typing",
  "Mod+Enter": "sends a message",
};

/** Keys of Apple's system. */
const TAKEN_APPLE: Record<string, string> = { "Mod+Q": "quits", "Mod+H": "hides the window", "Mod+M": "minimizes the window", "Mod+W": "closes the window" };

/** Keys of Windows and Linux. */
const TAKEN_OTHER: Record<string, string> = { "Mod+Y": "redoes typing", "Alt+F4": "closes the window" };

/** Keys that move the cursor or delete words together with a modifier. */
const EDITING = new Set(["ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Home", "End", "Backspace", "Delete", "Tab", "Insert", "PageUp", "PageDown", "Enter", "Space"]);

/** A key in its one way of writing; `null` if it is none. */
export function parseKey(text: string): string | null {
  const parts = text.split("+");
  const key = parts.pop() ?? "";
  const modifiers = new Set<string>(parts);
  if (modifiers.size !== parts.length || parts.some((part) => !(MODIFIERS as readonly string[]).includes(part))) return null;
  const name = NAMED.has(key) ? key : [...key].length === 1 && key.trim() !== "" ? key.toUpperCase() : null;
  return name === null ? null : written(modifiers, name);
}

/** The keys that a key press may mean, the likeliest first; none for a modifier alone. */
export function keysOf(press: KeyPress, onApple = apple): string[] {
  const { key, code } = press;
  if (["Control", "Shift", "Alt", "Meta", "AltGraph", "CapsLock", "Dead", "Process", "Unidentified", ""].includes(key)) return [];
  // AltGr on Windows also reports Control and Alt, but types a character.
  if (!onApple && press.ctrlKey && press.altKey && [...key].length === 1 && !/[a-z0-9]/i.test(key)) return [];
  // The Windows key belongs to the system.
  if (!onApple && press.metaKey) return [];
  const modifiers = new Set<string>();
  if (onApple ? press.metaKey : press.ctrlKey) modifiers.add("Mod");
  if (onApple && press.ctrlKey) modifiers.add("Ctrl");
  if (press.altKey) modifiers.add("Alt");
  const shifted = new Set(modifiers);
  if (press.shiftKey) shifted.add("Shift");

  const found: string[] = [];
  const add = (with_: Set<string>, name: string) => {
    const text = written(with_, name);
    if (!found.includes(text)) found.push(text);
  };
  if (key === " ") add(shifted, "Space");
  else if (NAMED.has(key)) add(shifted, key);
  else if (/^[a-z]$/i.test(key)) add(shifted, key.toUpperCase());
  // A digit or sign is typed with Shift on some keyboards and without on others.
  else if ([...key].length === 1 && (key.codePointAt(0) ?? 0) < 0x250) add(modifiers, key === "+" ? "Plus" : key.toUpperCase());
  // What the key types on a Latin keyboard.
  const place = /^(?:Key([A-Z])|Digit([0-9]))$/.exec(code);
  const latin = place?.[1] ?? place?.[2];
  if (latin !== undefined && !/^[a-z]$/i.test(key)) add(shifted, latin);
  return found;
}

/** Why a key cannot be a shortcut, as a sentence; `null` if it can. */
export function refusal(text: string, onApple = apple): string | null {
  const parts = text.split("+");
  const key = parts.at(-1) ?? "";
  const modified = parts.some((part) => part === "Mod" || part === "Ctrl" || part === "Alt");
  const taken = TAKEN[text] ?? (onApple ? TAKEN_APPLE : TAKEN_OTHER)[text];
  if (taken !== undefined) return `${showKey(text, onApple)} ${taken}. Choose another key.`;
  if (/^F\d+$/.test(key)) return null;
  if (!modified) return `${showKey(text, onApple)} alone types text or moves the focus. Add ${onApple ? "⌘, ⌃ or ⌥" : "Ctrl or Alt"}.`;
  // Two modifiers with an arrow are free.
  if (EDITING.has(key) && parts.length < 3) return `${showKey(text, onApple)} edits text or moves the cursor. Choose another key.`;
  return null;
}

const APPLE_SIGNS: Record<string, string> = { Mod: "⌘", Ctrl: "⌃", Alt: "⌥", Shift: "⇧" };
const SHORT: Record<string, string> = { Escape: "Esc", Delete: "Del", Plus: "+", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", PageUp: "Page Up", PageDown: "Page Down" };

/** `Ctrl Shift K` or `⇧⌘K` */
export function showKey(text: string, onApple = apple): string {
  const parts = text.split("+");
  const key = parts.pop() ?? "";
  const name = SHORT[key] ?? key;
  if (!onApple) return [...parts.map((part) => (part === "Mod" ? "Ctrl" : part)), name].join(" ");
  const order = ["Ctrl", "Alt", "Shift", "Mod"];
  return order.filter((part) => parts.includes(part)).map((part) => APPLE_SIGNS[part]).join("") + name;
}

/** As `aria-keyshortcuts` has it: `Control+Shift+K`. */
export function ariaKey(text: string, onApple = apple): string {
  return text.replace("Mod", onApple ? "Meta" : "Control").replace("Ctrl+", "Control+");
}

function written(modifiers: ReadonlySet<string>, key: string): string {
  return [...MODIFIERS.filter((modifier) => modifiers.has(modifier)), key].join("+");
}
