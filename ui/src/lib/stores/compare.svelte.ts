// Owns comparison: the choices for the answers to the next message, blind mode, and which
// comparisons are revealed.

import { SvelteSet } from "svelte/reactivity";
import type { Adapter, AdapterChoice, ComparedAnswer, Message, Model, Preset } from "../host";
import { same } from "../text/same";

/**
 * The choice of model, preset and adapters for one of the answers. `null` and `"chat"` mean those
 * of the conversation.
 */
export interface Choice {
  readonly model: string | null;
  /** Id of a preset. */
  readonly preset: string | null;
  readonly adapters: readonly AdapterChoice[] | "chat";
}

/** The parts of the app that models, presets and adapters are chosen from. */
interface Parts {
  readonly chatModel: Model | null;
  readonly models: { readonly all: readonly Model[] };
  readonly adapters: { of(model: string | null): readonly Adapter[] };
  readonly presets: { readonly all: readonly Preset[]; readonly chosen: Preset | null };
  readonly thread: { readonly adapters: readonly AdapterChoice[] };
}

/** As `ComparedAnswer::MAX` of the app. */
export const MAX_COMPARED_ANSWERS = 4;

const BASE: Choice = { model: null, preset: null, adapters: [] };
const CHAT: Choice = { model: null, preset: null, adapters: "chat" };

export class Compare {
  on = $state(false);
  /** Hides which answer is which until the vote. */
  blind = $state(true);
  choices: readonly Choice[] = $state.raw([]);
  /** Id of the conversation's model when the user last changed the choices. */
  private changedFor: string | null = null;
  /** Revealed comparisons, by the first answer's id. */
  private readonly open = new SvelteSet<number>();

  constructor(private readonly app: Parts) {}

  /** The choices in the form of the command `compare`. */
  get answers(): ComparedAnswer[] {
    return this.choices.map((choice) => ({
      overrides: { model: choice.model, preset: this.presetOf(choice), sampling: null },
      adapters: [...this.adaptersOf(choice)],
    }));
  }

  /** The models that can be chosen. */
  readonly models: readonly Model[] = $derived.by(() => this.app.models.all.filter(({ problem }) => problem === null));

  /** Id of the model of a choice. */
  private modelOf({ model }: Choice): string | null {
    return model ?? this.app.chatModel?.id ?? null;
  }

  private presetOf({ preset }: Choice): Preset | null {
    return this.app.presets.all.find(({ id }) => id === preset) ?? null;
  }

  /** The adapters that fit the model of a choice, also those that cannot be used now. */
  fitting(choice: Choice): readonly Adapter[] {
    return this.app.adapters.of(this.modelOf(choice));
  }

  /** The adapters of a choice, as far as they fit its model. */
  adaptersOf(choice: Choice): readonly AdapterChoice[] {
    const chosen = choice.adapters === "chat" ? this.app.thread.adapters : choice.adapters;
    if (choice.adapters === "chat" && choice.model === null) return chosen;
    const fitting = this.fitting(choice);
    return chosen.filter(({ adapter }) => fitting.some(({ id }) => id === adapter));
  }

  /** Number of different choices. */
  private readonly distinctCount: number = $derived.by(() => {
    const all = this.choices.map((choice) => ({
      model: this.modelOf(choice),
      preset: this.presetOf(choice)?.id ?? null,
      adapters: this.adaptersOf(choice),
    }));
    return all.filter((choice, at) => all.findIndex((other) => same(choice, other)) === at).length;
  });

  /** Whether two choices are the same. */
  readonly hasTwins: boolean = $derived.by(() => this.distinctCount < this.choices.length);

  /** Whether the next message has several answers. */
  readonly isReady: boolean = $derived.by(() => this.on && this.distinctCount > 1);

  /** Switches comparison on or off. Choices of the user for the same model are kept. */
  toggle(): void {
    this.on = !this.on;
    if (!this.on) return;
    this.choices = this.choices.filter(({ model }) => model === null || this.models.some(({ id }) => id === model));
    const isKept = this.changedFor === this.modelOf(CHAT) && this.choices.length > 1 && !this.hasTwins;
    if (!isKept) this.choices = this.defaults();
  }

  /** The base model and the newest adapter; or else another model, or another preset. */
  private defaults(): readonly Choice[] {
    const fitting = this.fitting(CHAT);
    if (this.app.thread.adapters.some(({ adapter }) => fitting.some(({ id }) => id === adapter))) return [BASE, CHAT];
    const newest = fitting.find(({ problem }) => problem === null);
    if (newest) return [BASE, { ...BASE, adapters: [{ adapter: newest.id, scale: 1 }] }];
    const other = this.models.find(({ id }) => id !== this.app.chatModel?.id);
    if (other) return [CHAT, { ...BASE, model: other.id }];
    const { all, chosen } = this.app.presets;
    return [CHAT, { ...CHAT, preset: all.find(({ id }) => id !== chosen?.id)?.id ?? null }];
  }

  /** Compares the base model with the adapters of the conversation. */
  withBase(): void {
    this.on = true;
    this.choices = [BASE, CHAT];
  }

  set(at: number, change: Partial<Choice>): void {
    this.change(this.choices.map((choice, index) => (index === at ? { ...choice, ...change } : choice)));
  }

  /** Adds a choice: the first model that is not compared yet, or else the first such preset. */
  add(): void {
    if (this.choices.length >= MAX_COMPARED_ANSWERS) return;
    const models = new Set(this.choices.map((choice) => this.modelOf(choice)));
    const presets = new Set(this.choices.map(({ preset }) => preset ?? this.app.presets.chosen?.id));
    const model = this.models.find(({ id }) => !models.has(id));
    const preset = this.app.presets.all.find(({ id }) => !presets.has(id));
    this.change([...this.choices, model ? { ...BASE, model: model.id } : { ...CHAT, preset: preset?.id ?? null }]);
  }

  remove(at: number): void {
    if (this.choices.length > 2) this.change(this.choices.filter((_, index) => index !== at));
  }

  private change(choices: readonly Choice[]): void {
    this.choices = choices;
    this.changedFor = this.modelOf(CHAT);
  }

  /** Whether the models and settings of these answers are hidden. */
  hidden(compared: readonly Message[]): boolean {
    return this.blind && !compared.some(({ better }) => better) && !this.open.has(firstOf(compared));
  }

  reveal(compared: readonly Message[]): void {
    this.open.add(firstOf(compared));
  }
}

function firstOf(compared: readonly Message[]): number {
  return Math.min(...compared.map(({ id }) => id));
}

/** Answers in a pseudo-random order that the id of the first one determines. */
export function shuffled<T extends { message: Pick<Message, "id"> }>(compared: readonly T[]): T[] {
  let state = Math.min(...compared.map(({ message }) => message.id)) ^ 0x9e3779b9;
  const order = [...compared];
  for (let last = order.length - 1; last > 0; last--) {
    // A step of a linear congruential generator, then the finalizer of MurmurHash3.
    state = (Math.imul(state, 0x85ebca6b) + 0x6d2b79f5) | 0;
    let x = state ^ (state >>> 16);
    x = Math.imul(x, 0xc2b2ae35);
    x ^= x >>> 13;
    const at = (x >>> 0) % (last + 1);
    [order[last], order[at]] = [order[at] as T, order[last] as T];
  }
  return order;
}
