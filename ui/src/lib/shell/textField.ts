// The elements that take typed text, and the keys that insert it.

import { apple, type KeyPress } from "../text/shortcut";

/** Types of `input` that take no text. */
const WITHOUT_TEXT = new Set(["button", "checkbox", "color", "file", "image", "radio", "range", "reset", "submit"]);

export function isTextField(element: Element): boolean {
  if (element instanceof HTMLInputElement) return !WITHOUT_TEXT.has(element.type);
  return element instanceof HTMLTextAreaElement || (element instanceof HTMLElement && element.isContentEditable);
}

/**
 * Whether a key inserts text into a field: a character, the beginning of one, a paste, or a key of
 * an input method.
 */
export function insertsText(event: KeyPress & Pick<KeyboardEvent, "getModifierState">, onApple = apple): boolean {
  const { key, code, ctrlKey, metaKey, altKey, shiftKey } = event;
  if (key === "Insert") return shiftKey && !ctrlKey && !metaKey && !altKey;
  // A layout without Latin letters pastes by the place of the key.
  const isV = key.toLowerCase() === "v" || (code === "KeyV" && !/^[a-z]$/i.test(key));
  if (isV && (onApple ? metaKey && !ctrlKey : ctrlKey && !metaKey) && !altKey) return true;
  // AltGr is Ctrl and Alt on Windows; on Apple's keyboards the Option key types characters.
  const isModified = event.getModifierState("AltGraph") ? metaKey : ctrlKey || metaKey || (altKey && !onApple);
  // Keys of input methods (not text).
  return !isModified && ([...key].length === 1 || ["Dead", "Process"].includes(key));
}
