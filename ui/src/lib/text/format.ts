// Formats numbers, sizes, times and dates.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const prefixes: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
];

/** `2,048` */
export function count(n: number): string {
  return whole.format(n);
}

/** `1 message`, `3 messages` */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

const sizes = ["B", "kB", "MB", "GB", "TB"];

/**
 * Bytes in decimal units, as file managers and model hubs show them: `9.8 MB`, `98 MB`, `1.1 GB`. The CLI formats
 * sizes in the same way: `byte_size` in `crates/formats/src/byte_size.rs`.
 */
export function fileSize(bytes: number): string {
  let [value, unit] = [bytes, 0];
  // The rounded value decides: 999,950 bytes are 1 MB, not 1,000 kB.
  while (unit + 1 < sizes.length && roundedSize(value, unit) >= 1000) [value, unit] = [value / 1000, unit + 1];
  return `${tenth.format(roundedSize(value, unit))} ${sizes[unit]}`;
}

function roundedSize(value: number, unit: number): number {
  const step = unit >= 3 || (unit > 0 && value < 9.95) ? 10 : 1;
  return Math.round(value * step) / step;
}

/** A number with an SI prefix: `412 M`, `1.9 T`. */
export function scaled(n: number): string {
  const [size, prefix] = prefixes.find(([least]) => n >= 0.9995 * least) ?? [1e3, "k"];
  const value = n / size;
  return `${(value < 9.95 ? tenth : whole).format(value)} ${prefix}`;
}

/** Number of parameters: `135M`, `1.2B`. */
export function parameters(n: number): string {
  // The rounded value decides: 999,886,000 are 1B, not 1,000M.
  if (n < 9.995e8) return `${count(n / 1e6)}M`;
  return `${tenth.format(n / 1e9)}B`;
}

/** `231 tokens/s`, with a decimal below 20. */
export function speed(tokensPerSecond: number): string {
  return `${(tokensPerSecond < 20 ? tenth : whole).format(tokensPerSecond)} tokens/s`;
}

/** `0.04 s`, `1.3 s`, `12 s` */
export function seconds(s: number): string {
  if (s < 0.1) return `${s.toFixed(2)} s`;
  return `${(s < 10 ? tenth : whole).format(s)} s`;
}

/** `45 s`, `3 min 10 s`, `2 h 5 min`. */
export function duration(s: number): string {
  const all = Math.max(0, Math.round(s));
  if (all < 60) return `${all} s`;
  const minutes = Math.floor(all / 60);
  if (minutes < 10) return all % 60 === 0 ? `${minutes} min` : `${minutes} min ${all % 60} s`;
  if (Math.round(all / 60) < 60) return `${Math.round(all / 60)} min`;
  const hours = Math.floor(Math.round(all / 60) / 60);
  const rest = Math.round(all / 60) % 60;
  return rest === 0 ? `${hours} h` : `${hours} h ${rest} min`;
}

/** A loss or perplexity with about three significant digits: `1.42`, `0.084`, `18.2`. */
export function loss(x: number | null): string {
  if (x === null || !Number.isFinite(x)) return "NaN";
  return x.toFixed(Math.abs(x) < 0.995 ? 3 : Math.abs(x) < 9.995 ? 2 : 1);
}

/** `2e-4`, `1.73e-5` */
export function learningRate(x: number): string {
  return Number(x.toPrecision(3)).toExponential();
}

/** `Today, 14:25`, `Yesterday, 09:10`, `3 Nov 2026` */
export function moment(time: number, now: number): string {
  const group = dayGroup(time, now);
  const clock = new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  if (group === "Today" || group === "Yesterday") return `${group}, ${clock}`;
  return new Date(time).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
}

/** `43 %` */
export function percent(fraction: number): string {
  return `${whole.format(Math.min(1, Math.max(0, fraction)) * 100)} %`;
}

/** The heading of a conversation of that time in the list. */
export function dayGroup(time: number, now: number): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const days = Math.round((midnight - new Date(time).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  if (days < 30) return "This month";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}

/** Capitalises the first letter. */
export function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
