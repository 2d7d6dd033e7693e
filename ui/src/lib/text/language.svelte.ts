// The language of messages, numbers and dates.

import { baseLocale, locales, overwriteGetLocale } from "$messages-runtime";

export type Locale = (typeof locales)[number];

/** English right to left, for tests (`scripts/messages.mjs`). */
const PSEUDO = "ar-XB";

class Language {
  locale: Locale = $state(baseLocale);

  /** Sets the locale; "system" selects the first of the system's languages that has messages. */
  choose(setting: string): void {
    this.locale =
      setting === "system"
        ? bestOf(typeof navigator === "undefined" ? [] : navigator.languages)
        : (find(setting) ?? baseLocale);
    if (typeof document === "undefined") return;
    document.documentElement.lang = this.locale;
    document.documentElement.dir = (this.locale as string) === PSEUDO ? "rtl" : "ltr";
  }

  /** The locale for `Intl`. English uses British dates, with the day before the month. */
  get intl(): string {
    return this.locale === "en" || (this.locale as string) === PSEUDO ? "en-GB" : this.locale;
  }
}

export const language = new Language();
overwriteGetLocale(() => language.locale);

function find(tag: string): Locale | undefined {
  return (
    locales.find((locale) => locale === tag) ?? locales.find((locale) => locale.split("-")[0] === tag.split("-")[0])
  );
}

/** The first of the user's languages that has messages. */
export function bestOf(tags: readonly string[]): Locale {
  for (const tag of tags) {
    const locale = find(tag);
    if (locale && (locale as string) !== PSEUDO) return locale;
  }
  return baseLocale;
}
