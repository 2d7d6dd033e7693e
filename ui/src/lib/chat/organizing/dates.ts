// Days of date fields (`2026-11-26`) as times, in the user's time zone.

import { language } from "../../text/language.svelte";

/** Offset of the last millisecond of a day. */
const REST_OF_DAY = 86_400_000 - 1;

/** The first millisecond of a day; `null` if the text is not a day. */
export function startOf(day: string): number | null {
  const time = day === "" ? Number.NaN : new Date(`${day}T00:00:00`).getTime();
  return Number.isFinite(time) ? time : null;
}

/** The last millisecond of a day; `null` if the text is not a day. */
export function endOf(day: string): number | null {
  const start = startOf(day);
  return start === null ? null : start + REST_OF_DAY;
}

/** `26 Nov 2026` */
export function dateOf(time: number): string {
  return new Intl.DateTimeFormat(language.intl, { day: "numeric", month: "short", year: "numeric" }).format(time);
}
