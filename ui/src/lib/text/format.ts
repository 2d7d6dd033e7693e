// Formats numbers, sizes, times and dates in the language of the window.

import { m } from "$messages";
import { language } from "./language.svelte";

const formats = new Map<string, Intl.NumberFormat>();

/** A number with `minDigits` to `maxDigits` fraction digits. */
function decimal(n: number, maxDigits: number, minDigits = 0): string {
  const key = `${language.intl} ${maxDigits} ${minDigits}`;
  let format = formats.get(key);
  if (!format)
    formats.set(
      key,
      (format = new Intl.NumberFormat(language.intl, {
        maximumFractionDigits: maxDigits,
        minimumFractionDigits: minDigits,
      })),
    );
  return format.format(n);
}

const prefixes: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
];

/** `2,048` */
export function count(n: number): string {
  return decimal(n, 0);
}

/** A number with at most four significant digits, not grouped: `0.05`, `1024`. */
export function precise(n: number): string {
  return significant(n, 4);
}

/** A number with at most `digits` significant digits, not grouped. */
export function significant(n: number, digits: number): string {
  return new Intl.NumberFormat(language.intl, { maximumSignificantDigits: digits, useGrouping: false }).format(n);
}

/** `a, b, c` */
export function list(texts: readonly string[]): string {
  return texts.length === 0 ? "" : texts.reduce((first, second) => m.text_list({ first, second }));
}

/** `a, b and c` */
export function listWithAnd(texts: readonly string[]): string {
  const [second, ...others] = [...texts].reverse();
  if (second === undefined) return "";
  return others.length === 0 ? second : m.text_list_and({ first: list(others.reverse()), second });
}

/** Joins whole sentences. */
export function sentences(texts: readonly string[]): string {
  return texts.length === 0 ? "" : texts.reduce((first, second) => m.text_two_sentences({ first, second }));
}

const sizes = ["B", "kB", "MB", "GB", "TB"];

/**
 * Bytes in decimal units, as file managers and model hubs show them: `9.8 MB`, `98 MB`, `1.1 GB`.
 * The CLI formats sizes in the same way: `byte_size` in `crates/formats/src/byte_size.rs`.
 */
export function fileSize(bytes: number): string {
  let [value, unit] = [bytes, 0];
  // The rounded value decides: 999,950 bytes are 1 MB, not 1,000 kB.
  while (unit + 1 < sizes.length && roundedSize(value, unit) >= 1000) [value, unit] = [value / 1000, unit + 1];
  return `${decimal(roundedSize(value, unit), 1)} ${sizes[unit]}`;
}

function roundedSize(value: number, unit: number): number {
  const step = unit >= 3 || (unit > 0 && value < 9.95) ? 10 : 1;
  return Math.round(value * step) / step;
}

/** A number with an SI prefix: `412 M`, `1.9 T`. */
export function scaled(n: number): string {
  const [size, prefix] = prefixes.find(([unit]) => n >= 0.9995 * unit) ?? [1e3, "k"];
  const value = n / size;
  return `${decimal(value, value < 9.95 ? 1 : 0)} ${prefix}`;
}

/** Number of parameters: `79K`, `135M`, `1.2B`. */
export function parameters(n: number): string {
  if (n < 9.995e5) return `${count(n / 1e3)}K`;
  // The rounded value decides: 999,886,000 are 1B, not 1,000M.
  if (n < 9.995e8) return `${count(n / 1e6)}M`;
  return `${decimal(n / 1e9, 1)}B`;
}

/** `231 tokens/s`, with a decimal below 20. */
export function speed(tokensPerSecond: number): string {
  return m.text_tokens_per_second({ n: decimal(tokensPerSecond, tokensPerSecond < 20 ? 1 : 0) });
}

/** `0.04 s`, `1.3 s`, `12 s` */
export function seconds(s: number): string {
  return m.text_seconds({ n: s < 0.1 ? decimal(s, 2, 2) : decimal(s, s < 10 ? 1 : 0) });
}

/** `45 s`, `3 min 10 s`, `2 h 5 min`. */
export function duration(s: number): string {
  const all = Math.max(0, Math.round(s));
  if (all < 60) return m.text_seconds({ n: all });
  const minutes = Math.floor(all / 60);
  if (minutes < 10 && all % 60 !== 0) return m.text_minutes_seconds({ minutes, seconds: all % 60 });
  if (Math.round(all / 60) < 60) return m.text_minutes({ n: Math.round(all / 60) });
  const hours = Math.floor(Math.round(all / 60) / 60);
  const rest = Math.round(all / 60) % 60;
  return rest === 0 ? m.text_hours({ n: hours }) : m.text_hours_minutes({ hours, minutes: rest });
}

/** A loss or perplexity with about three significant digits: `1.42`, `0.084`, `18.2`. */
export function loss(x: number | null): string {
  if (x === null || !Number.isFinite(x)) return "NaN";
  const digits = Math.abs(x) < 0.995 ? 3 : Math.abs(x) < 9.995 ? 2 : 1;
  return decimal(x, digits, digits);
}

/** `2e-4`, `1.73e-5` */
export function learningRate(x: number): string {
  return Number(x.toPrecision(3)).toExponential();
}

/** `Today, 14:25`, `Yesterday, 09:10`, `3 Nov 2026` */
export function moment(time: number, now: number): string {
  const days = daysBefore(time, now);
  if (days > 1)
    return new Date(time).toLocaleDateString(language.intl, { day: "numeric", month: "short", year: "numeric" });
  const clock = new Date(time).toLocaleTimeString(language.intl, { hour: "2-digit", minute: "2-digit" });
  return days <= 0 ? m.text_today_at({ clock }) : m.text_yesterday_at({ clock });
}

/** `43 %` */
export function percent(fraction: number): string {
  return percentOf(Math.min(1, Math.max(0, fraction)) * 100);
}

/** `43 %`, from 43 */
export function percentOf(hundredths: number): string {
  return m.text_percent({ n: decimal(hundredths, 0) });
}

/** Calendar days from a time to now. */
function daysBefore(time: number, now: number): number {
  return Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(time).setHours(0, 0, 0, 0)) / 86_400_000);
}

/** The heading of a day in the list of conversations. */
export function dayGroup(time: number, now: number): string {
  const days = daysBefore(time, now);
  if (days <= 0) return m.text_today();
  if (days === 1) return m.text_yesterday();
  if (days < 7) return m.text_this_week();
  if (days < 30) return m.text_this_month();
  return new Date(time).toLocaleDateString(language.intl, { month: "long", year: "numeric" });
}

/** Capitalizes the first letter. */
export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
