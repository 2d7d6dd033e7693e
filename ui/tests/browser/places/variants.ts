// What places are checked in beside English and light, in parts.

/** The dark theme, and each other language with messages. */
export const VARIANTS = ["dark", "de", "es", "zh-CN"] as const;

export type Variant = (typeof VARIANTS)[number];

/**
 * The index of a case among those of an area, for the place at an index. The variants begin with another one at each place:
 * a part of four then has every place once, and each variant at a quarter of them.
 */
export function caseIndex(place: number, variant: Variant): number {
  return VARIANTS.length * place + ((VARIANTS.indexOf(variant) + place) % VARIANTS.length);
}
