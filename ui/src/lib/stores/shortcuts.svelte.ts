// Owns the keys of actions: the defaults, and the changes that the settings have.

import type { Action } from "../actions";
import { apple, ariaKey, keysOf, parseKey, showKey, type KeyPress } from "../text/shortcut";
import type { SettingsStore } from "./settings.svelte";

export class Shortcuts {
  /** The keys of every action. A changed key takes precedence over another action's default. */
  private readonly keys: ReadonlyMap<string, readonly string[]> = $derived.by(() => {
    const changed = this.changed;
    const assigned = new Set([...changed.values()].filter((key) => key !== ""));
    return new Map(
      this.actions.map((action) => {
        const key = changed.get(action.id);
        if (key !== undefined) return [action.id, key === "" ? [] : [key]] as const;
        return [action.id, this.defaults(action).filter((key) => !assigned.has(key))] as const;
      }),
    );
  });

  /** The action of every key. */
  private readonly owners: ReadonlyMap<string, string> = $derived(
    new Map([...this.keys].flatMap(([id, keys]) => keys.map((key) => [key, id] as const))),
  );

  /** Changes of known actions that can be read; of two with the same key, the first one counts. */
  private readonly changed: ReadonlyMap<string, string> = $derived.by(() => {
    const seen = new Set<string>();
    return new Map(
      Object.entries(this.settings.value.shortcuts).flatMap(([id, text]) => {
        const key = text === "" ? "" : parseKey(text);
        if (key === null || (key !== "" && seen.has(key)) || !this.actions.some((action) => action.id === id))
          return [];
        seen.add(key);
        return [[id, key] as const];
      }),
    );
  });

  constructor(
    private readonly settings: SettingsStore,
    private readonly actions: readonly Action[],
    private readonly onApple = apple,
  ) {}

  defaults(action: Action): readonly string[] {
    return (this.onApple ? action.appleKeys : undefined) ?? action.keys ?? [];
  }

  /** The key of an action, as written; `null` if it has none. */
  key(id: string): string | null {
    return this.keys.get(id)?.[0] ?? null;
  }

  /** The key of an action, as shown; empty if it has none. */
  label(id: string): string {
    const key = this.key(id);
    return key === null ? "" : showKey(key, this.onApple);
  }

  /** A button's tooltip: its name, and the key of its action. */
  title(name: string, id: string): string {
    const key = this.label(id);
    return key === "" ? name : `${name} (${key})`;
  }

  /** The value of `aria-keyshortcuts`. */
  aria(id: string): string | undefined {
    const key = this.key(id);
    return key === null ? undefined : ariaKey(key, this.onApple);
  }

  isChanged(id: string): boolean {
    return this.changed.has(id);
  }

  readonly anyChanged: boolean = $derived(this.changed.size > 0);

  /** The action of a key press. */
  find(press: KeyPress): Action | null {
    for (const key of keysOf(press, this.onApple)) {
      const id = this.owners.get(key);
      if (id !== undefined) return this.actions.find((action) => action.id === id) ?? null;
    }
    return null;
  }

  /** Another action that has this key. */
  owner(key: string, id: string): Action | null {
    const owner = this.owners.get(key);
    return owner === undefined || owner === id ? null : (this.actions.find((action) => action.id === owner) ?? null);
  }

  /** Gives an action a key (empty: none). An action that had it gets the old key in exchange. */
  async assign(id: string, key: string): Promise<void> {
    const other = key === "" ? null : this.owner(key, id);
    const changes: [string, string][] = [[id, key]];
    if (other) changes.push([other.id, this.key(id) ?? ""]);
    await this.save(changes);
  }

  /** Returns an action to its default keys. An action that has one of them loses it. */
  async reset(id: string): Promise<void> {
    const action = this.actions.find((candidate) => candidate.id === id);
    const keys = action ? this.defaults(action) : [];
    const losing = [...this.changed]
      .filter(([other, key]) => other !== id && keys.includes(key))
      .map(([other]): [string, string] => [other, ""]);
    await this.save([[id, null], ...losing]);
  }

  async resetAll(): Promise<void> {
    await this.settings.change({ shortcuts: {} });
  }

  private async save(changes: readonly [id: string, key: string | null][]): Promise<void> {
    const shortcuts = { ...this.settings.value.shortcuts };
    for (const [id, key] of changes) {
      const action = this.actions.find((candidate) => candidate.id === id);
      const defaults = action ? this.defaults(action) : [];
      // A default needs no entry.
      if (key === null || (defaults.length === 0 ? key === "" : defaults.length === 1 && defaults[0] === key))
        delete shortcuts[id];
      else shortcuts[id] = key;
    }
    await this.settings.change({ shortcuts });
  }
}
