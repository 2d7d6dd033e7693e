import { afterEach, describe, expect, test } from "vitest";
import { actions, groups, type Action } from "../../src/lib/actions";
import { find, type Item } from "../../src/lib/actions/items";
import { FakeHost } from "../../src/lib/host/fake";
import { Palette } from "../../src/lib/stores/palette.svelte";
import { SettingsStore } from "../../src/lib/stores/settings.svelte";
import { Shortcuts } from "../../src/lib/stores/shortcuts.svelte";
import { fuzzy } from "../../src/lib/text/fuzzy";
import { language } from "../../src/lib/text/language.svelte";
import { ariaKey, keysOf, parseKey, refusal, showKey, type KeyPress } from "../../src/lib/text/shortcut";

afterEach(() => language.choose("en"));

const press = (key: string, change: Partial<KeyPress> = {}): KeyPress => ({
  key,
  code: "",
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...change,
});

describe("a key", () => {
  test("is written in one way, or is none", () => {
    expect(parseKey("Mod+k")).toBe("Mod+K");
    expect(parseKey("Shift+Alt+Mod+K")).toBe("Mod+Alt+Shift+K");
    expect(parseKey("F2")).toBe("F2");
    expect(parseKey("Mod+-")).toBe("Mod+-");
    for (const wrong of [
      "",
      "+",
      "Mod+",
      "Mod+Mod+K",
      "Hyper+K",
      "Mod+Kk",
      "Mod+ ",
      "K+Mod",
      "🙂🙂",
      "x".repeat(10_000),
    ])
      expect([wrong, parseKey(wrong)]).toEqual([wrong, null]);
  });

  test("is read from a key press, on any keyboard", () => {
    expect(keysOf(press("k", { ctrlKey: true, code: "KeyK" }), false)).toEqual(["Mod+K"]);
    expect(keysOf(press("K", { ctrlKey: true, shiftKey: true, code: "KeyK" }), false)).toEqual(["Mod+Shift+K"]);
    expect(keysOf(press("k", { metaKey: true }), true)).toEqual(["Mod+K"]);
    expect(keysOf(press("k", { ctrlKey: true }), true)).toEqual(["Ctrl+K"]);
    // Cyrillic, and Option on a Mac, type another character.
    expect(keysOf(press("л", { ctrlKey: true, code: "KeyK" }), false)).toEqual(["Mod+K"]);
    expect(keysOf(press("˚", { altKey: true, metaKey: true, code: "KeyK" }), true)).toEqual(["Mod+Alt+K"]);
    // Dvorak: what is typed counts, not where it is.
    expect(keysOf(press("t", { ctrlKey: true, code: "KeyK" }), false)).toEqual(["Mod+T"]);
    // The digits of a French keyboard need Shift.
    expect(keysOf(press("&", { ctrlKey: true, code: "Digit1" }), false)).toEqual(["Mod+&", "Mod+1"]);
    expect(keysOf(press("+", { ctrlKey: true, shiftKey: true, code: "Equal" }), false)).toEqual(["Mod+Plus"]);
    expect(keysOf(press("Escape"), false)).toEqual(["Escape"]);
  });

  test("is not a modifier alone, a character of AltGr, or a key of the system", () => {
    expect(keysOf(press("Control", { ctrlKey: true }), false)).toEqual([]);
    expect(keysOf(press("€", { ctrlKey: true, altKey: true, code: "KeyE" }), false)).toEqual([]);
    expect(keysOf(press("k", { metaKey: true }), false)).toEqual([]);
    expect(keysOf(press("Dead", { altKey: true }), true)).toEqual([]);
  });

  test("that edits text or is needed elsewhere is refused in a sentence", () => {
    for (const key of ["K", "Shift+K", "Enter", "Escape", "Mod+C", "Mod+Enter", "Mod+ArrowLeft", "Alt+Backspace"])
      expect([key, refusal(key, false)]).toEqual([key, expect.stringMatching(/^[A-Z↑←].*\.$/)]);
    for (const key of ["F5", "Shift+F5", "Mod+J", "Alt+J", "Mod+Shift+ArrowUp", "Mod+Q"])
      expect([key, refusal(key, false)]).toEqual([key, null]);
    expect(refusal("Mod+Q", true)).toBe("⌘Q quits. Choose another key.");
  });

  test("is shown as the platform shows it", () => {
    expect([
      showKey("Mod+Shift+K", false),
      showKey("Mod+Shift+K", true),
      showKey("Escape", false),
      showKey("Mod+Plus", false),
    ]).toEqual(["Ctrl Shift K", "⇧⌘K", "Esc", "Ctrl +"]);
    language.choose("de");
    expect([showKey("Mod+Shift+Delete", false), showKey("Mod+Shift+Enter", true)]).toEqual([
      "Strg Umschalt Entf",
      "⇧⌘Eingabe",
    ]);
    expect([ariaKey("Mod+Shift+K", false), ariaKey("Mod+K", true), ariaKey("Ctrl+K", true)]).toEqual([
      "Control+Shift+K",
      "Meta+K",
      "Control+K",
    ]);
  });
});

describe("the table of actions", () => {
  test("has unique ids, and defaults that are written in one way and belong to one action", () => {
    expect(new Set(actions.map(({ id }) => id)).size).toBe(actions.length);
    for (const keys of [(a: Action) => a.keys ?? [], (a: Action) => a.appleKeys ?? a.keys ?? []]) {
      const all = actions.flatMap(keys);
      expect(new Set(all).size).toBe(all.length);
      for (const key of all) expect(parseKey(key)).toBe(key);
      // Escape is the one key that cannot be chosen.
      for (const key of all.filter((key) => key !== "Escape"))
        for (const apple of [false, true]) expect([key, refusal(key, apple)]).toEqual([key, null]);
    }
  });
});

describe("the texts of actions", () => {
  const at = (id: string) => actions.find((action) => action.id === id) ?? actions[0]!;

  test("follow the language, and words of both are found", () => {
    try {
      expect(at("stop").title).toBe("Stop the answer");
      language.choose("de");
      expect([at("stop").title, at("settings-general").title, groups[1]?.label]).toEqual([
        "Antwort stoppen",
        "Einstellungen: Allgemein",
        "Gehe zu",
      ]);
      for (const query of ["stop answer", "antwort", "abbrechen", "cancel"])
        expect([query, fuzzy(query, at("stop").title, at("stop").words) !== null]).toEqual([query, true]);
      for (const query of ["general", "allgemein", "dunkel", "dark", "gehe", "go"])
        expect([query, fuzzy(query, at("settings-general").title, at("settings-general").words) !== null]).toEqual([
          query,
          true,
        ]);
    } finally {
      language.choose("en");
    }
  });
});

function shortcuts(changes: Record<string, string> = {}): { keys: Shortcuts; settings: SettingsStore } {
  const settings = new SettingsStore(new FakeHost(null));
  settings.fill({ ...settings.value, shortcuts: changes }, "");
  return { keys: new Shortcuts(settings, actions, false), settings };
}

const ctrl = (key: string) => press(key, { ctrlKey: true });

describe("changed keys", () => {
  test("replace the defaults, and unknown ids and keys that cannot be read are ignored", () => {
    const { keys } = shortcuts({ "new-conversation": "Mod+J", palette: "nonsense", "of-tomorrow": "Mod+L" });
    expect(keys.find(ctrl("j"))?.id).toBe("new-conversation");
    expect(keys.find(ctrl("n"))).toBe(null);
    expect(keys.find(ctrl("k"))?.id).toBe("palette");
    expect(keys.find(ctrl("l"))?.id).toBe("write");
  });

  test("take a key from a default, and of two equal ones the first counts", () => {
    const { keys } = shortcuts({ search: "Mod+N", write: "Mod+N" });
    expect(keys.find(ctrl("n"))?.id).toBe("search");
    expect(keys.label("new-conversation")).toBe("");
    expect(keys.label("write")).toBe("Ctrl L");
  });

  test("are swapped with the action that has the key", async () => {
    const { keys, settings } = shortcuts();
    expect(keys.owner("Mod+N", "palette")?.id).toBe("new-conversation");
    await keys.assign("palette", "Mod+N");
    expect([keys.label("palette"), keys.label("new-conversation")]).toEqual(["Ctrl N", "Ctrl K"]);
    await keys.assign("palette", "Mod+K");
    expect(settings.value.shortcuts).toEqual({});
  });

  test("can be removed and reset, and those of a newer Hearth stay", async () => {
    const { keys, settings } = shortcuts({ "of-tomorrow": "Mod+J" });
    await keys.assign("stop", "");
    expect(keys.find(press("Escape"))).toBe(null);
    await keys.assign("search", "Mod+N");
    await keys.reset("new-conversation");
    expect([keys.label("search"), keys.label("new-conversation")]).toEqual(["", "Ctrl N"]);
    expect(keys.anyChanged).toBe(true);
    await keys.reset("stop");
    expect(keys.label("stop")).toBe("Esc");
    expect(settings.value.shortcuts["of-tomorrow"]).toBe("Mod+J");
  });

  test("of several defaults, one can be chosen alone", async () => {
    const { keys } = shortcuts();
    expect(keys.find(ctrl("="))?.id).toBe("text-larger");
    expect(keys.find(ctrl("+"))?.id).toBe("text-larger");
    await keys.assign("text-larger", "Mod+Plus");
    expect(keys.find(ctrl("="))).toBe(null);
    await keys.reset("text-larger");
    expect(keys.find(ctrl("="))?.id).toBe("text-larger");
  });
});

describe("fuzzy search", () => {
  const best = (query: string, ...texts: string[]) =>
    texts
      .map((text) => ({ text, match: fuzzy(query, text) }))
      .filter(({ match }) => match !== null)
      .sort((a, b) => (b.match?.score ?? 0) - (a.match?.score ?? 0))
      .map(({ text }) => text);

  test("ranks beginnings before words, parts, and scattered letters", () => {
    expect(best("mod", "A model", "Remodel", "Models", "My odd", "Chat")).toEqual([
      "Models",
      "A model",
      "Remodel",
      "My odd",
    ]);
    expect(fuzzy("ncv", "New conversation")?.at).toEqual([0, 4, 7]);
    expect(fuzzy("new conv", "New conversation")?.at).toEqual([0, 1, 2, 4, 5, 6, 7]);
    expect(fuzzy("zz", "New conversation")).toBe(null);
    expect(fuzzy("", "Anything")?.at).toEqual([]);
  });

  test("survives any text", () => {
    expect(fuzzy("stan", "İSTANBUL")?.at).toEqual([1, 2, 3, 4]);
    expect(fuzzy("a".repeat(200), "a".repeat(200))?.at.length).toBe(200);
    const start = performance.now();
    for (let i = 0; i < 10_000; i++) fuzzy("qwertz uiop", `A conversation about the number ${i} and more`);
    expect(performance.now() - start).toBeLessThan(2000);
  });
});

describe("the palette", () => {
  const item = (id: string, title: string, words = ""): Item => ({
    id,
    title,
    words,
    group: "",
    icon: "chat",
    key: "",
    run: () => {},
  });
  const all = [
    item("a", "Alpha", "first"),
    item("b", "Beta"),
    item("conversation:1", "Alpine walk"),
    item("model:x", "Load Alpaca"),
  ];
  const ids = (query: string, recent: string[] = []) => find(all, query, recent).map(({ id }) => id);

  test("lists actions, recent ones first, and finds the rest by a query", () => {
    expect(ids("")).toEqual(["a", "b"]);
    expect(ids("", ["conversation:1", "b"])).toEqual(["conversation:1", "b", "a"]);
    expect(ids("alp")).toEqual(["a", "conversation:1", "model:x"]);
    expect(ids("alp", ["conversation:1"])).toEqual(["conversation:1", "a", "model:x"]);
    expect(ids("first")).toEqual(["a"]);
    expect(ids("nothing like it")).toEqual([]);
  });

  test("remembers a few items, and ignores storage that cannot be read", () => {
    let saved = "{not json";
    const storage = { getItem: () => saved, setItem: (_: string, text: string) => void (saved = text) };
    const palette = new Palette(storage);
    expect(palette.recent).toEqual([]);
    for (let i = 0; i < 40; i++) palette.used(`action-${i % 20}`);
    expect(palette.recent.length).toBe(12);
    expect(new Palette(storage).recent).toEqual(palette.recent);
    saved = JSON.stringify([1, null, "a", { b: 1 }]);
    expect(new Palette(storage).recent).toEqual(["a"]);
  });
});
