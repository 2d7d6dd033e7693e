// The variants in which places are checked in addition to English and light, in parts.

/** The dark theme, and each other language with messages. */
export const VARIANTS = ["dark", "de", "es", "zh-CN"] as const;

export type Variant = (typeof VARIANTS)[number];

/**
 * The index of a case within its area, for the place at an index. Each place begins with a
 * different variant. A part of four then has every place once, and each variant for a quarter of
 * the places.
 */
export function caseIndex(place: number, variant: Variant): number {
  return VARIANTS.length * place + ((VARIANTS.indexOf(variant) + place) % VARIANTS.length);
}
