// Menus: the groups of their actions, the places of menus and tooltips, and what a key types.

import { expect, test } from "vitest";
import { grouped, placeMenu, placeTip } from "../../src/lib/shell/menu";
import { insertsText } from "../../src/lib/shell/textField";
import { ContextMenu } from "../../src/lib/stores/contextMenu.svelte";

const box = (left: number, top: number, width = 0, height = 0) => ({
  left,
  top,
  right: left + width,
  bottom: top + height,
});
const WINDOW = { width: 800, height: 600 };
const SIZE = { width: 200, height: 100 };

test("each group of actions but the first begins with a line, and empty ones have none", () => {
  const action = (label: string) => ({ label, run: () => {} });
  const actions = grouped([], [action("a"), action("b")], [], [action("c"), action("d")]);
  expect(actions.map(({ label, divided }) => [label, divided ?? false])).toEqual([
    ["a", false],
    ["b", false],
    ["c", true],
    ["d", false],
  ]);
});

test.each([
  ["below a button", box(100, 50, 30, 30), false, { left: 100, top: 84 }],
  ["above a button at the bottom", box(100, 560, 30, 30), false, { left: 100, top: 456 }],
  ["from the end in right-to-left text", box(400, 50, 30, 30), true, { left: 230, top: 84 }],
  ["within the window at its edge", box(790, 50), false, { left: 592, top: 54 }],
])("a menu opens %s", (_, at, rtl, place) => {
  expect(placeMenu(at, SIZE, WINDOW, { gap: 4, rtl })).toEqual(place);
});

test.each([
  ["above", box(300, 300, 40, 30), { left: 220, top: 194 }],
  ["below without space above", box(300, 20, 40, 30), { left: 220, top: 56 }],
  ["beside what is as tall as the window", box(100, 0, 40, 600), { left: 146, top: 250 }],
  ["on the other side of it at the edge", box(700, 0, 90, 600), { left: 494, top: 250 }],
])("a tooltip is %s", (_, at, place) => {
  expect(placeTip(at, SIZE, WINDOW, { gap: 6, x: (at.left + at.right) / 2 })).toEqual(place);
});

test("a tooltip that would cover its element is not shown", () => {
  expect(placeTip(box(0, 0, 800, 600), SIZE, WINDOW, { gap: 6, x: 400 })).toBeNull();
});

test("a dialog does not have the menu of an element around it, but menus of its own", () => {
  const element = (name: string, parentElement: Element | null) =>
    ({ parentElement, matches: (selector: string) => selector === name }) as Element;
  const message = element("div", null);
  const dialog = element("dialog", message);
  const row = element("div", dialog);
  const menus = new ContextMenu();
  menus.of(() => null)(message);
  menus.of(() => null)(row);
  expect([message, dialog, element("p", dialog), element("p", row)].map((at) => menus.ownerOf(at))).toEqual([
    message,
    null,
    null,
    row,
  ]);
});

const press = (key: string, held: string[], code = "") => ({
  key,
  code,
  ctrlKey: held.includes("Control"),
  metaKey: held.includes("Meta"),
  altKey: held.includes("Alt"),
  shiftKey: held.includes("Shift"),
  getModifierState: (name: string) => held.includes(name),
});

/** Keys, what is held with them, whether they insert text, and the place of the key on the keyboard. */
const presses: [key: string, held: string[], elsewhere: boolean, onApple: boolean, code?: string][] = [
  ["a", [], true, true],
  ["Ü", ["Shift"], true, true],
  [" ", [], true, true],
  ["Dead", [], true, true],
  ["Process", [], true, true],
  ["@", ["AltGraph", "Control", "Alt"], true, true],
  ["Enter", [], false, false],
  ["ArrowDown", [], false, false],
  ["F2", [], false, false],
  ["c", ["Control"], false, false],
  ["v", ["Control"], true, false, "KeyV"],
  ["v", ["Meta"], false, true, "KeyV"],
  ["м", ["Control"], true, false, "KeyV"],
  ["k", ["Control"], false, false, "KeyV"],
  ["ü", ["Alt"], false, true],
  ["Insert", ["Shift"], true, true],
];

test.each(presses)(
  "%j with %j inserts text: elsewhere %s, on Apple's machines %s",
  (key, held, elsewhere, onApple, code) => {
    expect(insertsText(press(key, held, code), false)).toBe(elsewhere);
    expect(insertsText(press(key, held, code), true)).toBe(onApple);
  },
);
