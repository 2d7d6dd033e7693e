// Keyboard shortcuts: parsing, validation and display. A key is written `Mod+Shift+K`; `Mod` is
// Command on Apple devices and Control elsewhere.

import { m } from "$messages";

export const apple = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

/** The part of a `KeyboardEvent` that names a key. */
export type KeyPress = Pick<KeyboardEvent, "key" | "code" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">;

/** Modifiers (not text: as keys are written) in canonical order. `Ctrl` is the Control key of Apple devices. */
const MODIFIERS = ["Mod", "Ctrl", "Alt", "Shift"] as const;

/** Keys with the names of `KeyboardEvent.key` (not text); all others are one character. */
const NAMED = new Set([
  "Escape",
  "Enter",
  "Tab",
  "Backspace",
  "Delete",
  "Insert",
  "Home",
  "End",
  "PageUp",
  "PageDown",
  "ArrowUp",
  "ArrowDown",
  "ArrowLeft",
  "ArrowRight",
  "Space",
  "Plus",
  ...Array.from({ length: 24 }, (_, i) => `F${i + 1}`),
]);

type Taken = Record<string, (inputs: { key: string }) => string>;

/** Keys that edit text on every system, with a sentence on the effect of each. */
const TAKEN: Taken = {
  "Mod+A": m.text_key_selects_all,
  "Mod+C": m.text_key_copies,
  "Mod+V": m.text_key_pastes,
  "Mod+X": m.text_key_cuts,
  "Mod+Z": m.text_key_undoes,
  "Mod+Shift+Z": m.text_key_redoes,
  "Mod+Enter": m.text_key_sends,
};

/** Keys reserved by macOS. */
const TAKEN_APPLE: Taken = {
  "Mod+Q": m.text_key_quits,
  "Mod+H": m.text_key_hides,
  "Mod+M": m.text_key_minimizes,
  "Mod+W": m.text_key_closes,
};

/** Keys reserved by Windows and Linux. */
const TAKEN_OTHER: Taken = { "Mod+Y": m.text_key_redoes, "Alt+F4": m.text_key_closes };

/** Keys (not text: as they are written) that move the cursor or delete words together with a modifier. */
const EDITING = new Set([
  "ArrowUp",
  "ArrowDown",
  "ArrowLeft",
  "ArrowRight",
  "Home",
  "End",
  "Backspace",
  "Delete",
  "Tab",
  "Insert",
  "PageUp",
  "PageDown",
  "Enter",
  "Space",
]);

/** The canonical form of a key; `null` if the text is not a key. */
export function parseKey(text: string): string | null {
  const parts = text.split("+");
  const key = parts.pop() ?? "";
  const modifiers = new Set<string>(parts);
  if (modifiers.size !== parts.length || parts.some((part) => !(MODIFIERS as readonly string[]).includes(part)))
    return null;
  const name = NAMED.has(key) ? key : [...key].length === 1 && key.trim() !== "" ? key.toUpperCase() : null;
  return name === null ? null : written(modifiers, name);
}

/** The keys that an event may stand for, most likely first; empty for a modifier alone. */
export function keysOf(press: KeyPress, onApple = apple): string[] {
  const { key, code } = press;
  // not text: as in a `KeyboardEvent`
  if (["Control", "Shift", "Alt", "Meta", "AltGraph", "CapsLock", "Dead", "Process", "Unidentified", ""].includes(key))
    return [];
  // AltGr on Windows also reports Control and Alt, but types a character.
  if (!onApple && press.ctrlKey && press.altKey && [...key].length === 1 && !/[a-z0-9]/i.test(key)) return [];
  // The Windows key belongs to the system.
  if (!onApple && press.metaKey) return [];
  const modifiers = new Set<string>();
  // not text: as keys are written
  if (onApple ? press.metaKey : press.ctrlKey) modifiers.add("Mod");
  if (onApple && press.ctrlKey) modifiers.add("Ctrl"); // not text: a key
  if (press.altKey) modifiers.add("Alt"); // not text: a key
  const shifted = new Set(modifiers);
  if (press.shiftKey) shifted.add("Shift"); // not text: a key

  const keys: string[] = [];
  const add = (with_: Set<string>, name: string) => {
    const text = written(with_, name);
    if (!keys.includes(text)) keys.push(text);
  };
  if (key === " ")
    add(shifted, "Space"); // not text: a key
  else if (NAMED.has(key)) add(shifted, key);
  else if (/^[a-z]$/i.test(key)) add(shifted, key.toUpperCase());
  // A digit or sign is typed with Shift on some keyboards and without on others.
  else if ([...key].length === 1 && (key.codePointAt(0) ?? 0) < 0x250)
    add(modifiers, key === "+" ? "Plus" : key.toUpperCase()); // not text: a key
  // The character of the key on a Latin keyboard.
  const place = /^(?:Key([A-Z])|Digit([0-9]))$/.exec(code);
  const latin = place?.[1] ?? place?.[2];
  if (latin !== undefined && !/^[a-z]$/i.test(key)) add(shifted, latin);
  return keys;
}

/** The reason for which a key cannot be a shortcut, as a sentence; `null` if it can. */
export function refusal(text: string, onApple = apple): string | null {
  const parts = text.split("+");
  const key = parts.at(-1) ?? "";
  const modified = parts.some((part) => part === "Mod" || part === "Ctrl" || part === "Alt");
  const shown = { key: showKey(text, onApple) };
  const use = TAKEN[text] ?? (onApple ? TAKEN_APPLE : TAKEN_OTHER)[text];
  if (use !== undefined) return use(shown);
  if (/^F\d+$/.test(key)) return null;
  if (!modified) return onApple ? m.text_key_alone_apple(shown) : m.text_key_alone(shown);
  // An arrow with two modifiers is allowed.
  if (EDITING.has(key) && parts.length < 3) return m.text_key_edits(shown);
  return null;
}

const APPLE_SIGNS: Record<string, string> = { Mod: "⌘", Ctrl: "⌃", Alt: "⌥", Shift: "⇧" };
const SIGNS: Record<string, string> = { Plus: "+", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→" };

/** Names of keys that differ between languages. */
const NAMES: Record<string, () => string> = {
  Mod: m.text_key_name_control,
  Ctrl: m.text_key_name_control,
  Shift: m.text_key_name_shift,
  Escape: m.text_key_name_escape,
  Enter: m.text_key_name_enter,
  Backspace: m.text_key_name_backspace,
  Delete: m.text_key_name_delete,
  Insert: m.text_key_name_insert,
  Home: m.text_key_name_home,
  End: m.text_key_name_end,
  PageUp: m.text_key_name_page_up,
  PageDown: m.text_key_name_page_down,
  Space: m.text_key_name_space,
};

const named = (key: string) => NAMES[key]?.() ?? SIGNS[key] ?? key;

/** `Ctrl Shift K` or `⇧⌘K` */
export function showKey(text: string, onApple = apple): string {
  const parts = text.split("+");
  const key = parts.pop() ?? "";
  if (!onApple) return [...parts, key].map(named).join(" ");
  const order = ["Ctrl", "Alt", "Shift", "Mod"]; // not text: as keys are written
  return (
    order
      .filter((part) => parts.includes(part))
      .map((part) => APPLE_SIGNS[part])
      .join("") + named(key)
  );
}

/** The form of `aria-keyshortcuts`: `Control+Shift+K`. */
export function ariaKey(text: string, onApple = apple): string {
  // not text: as the attribute has it
  return text.replace("Mod", onApple ? "Meta" : "Control").replace("Ctrl+", "Control+");
}

function written(modifiers: ReadonlySet<string>, key: string): string {
  return [...MODIFIERS.filter((modifier) => modifiers.has(modifier)), key].join("+");
}
