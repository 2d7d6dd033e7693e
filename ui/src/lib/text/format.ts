// Numbers, sizes and days as a person reads them.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** `2,048` */
export function count(n: number): string {
  return whole.format(n);
}

/** `1 message`, `3 messages` */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Bytes in decimal units, as file managers and model hubs show them: `98 MB`, `1.1 GB`. */
export function fileSize(bytes: number): string {
  if (bytes < 1e6) return `${count(bytes / 1e3)} kB`;
  if (bytes < 1e9) return `${count(bytes / 1e6)} MB`;
  return `${tenth.format(bytes / 1e9)} GB`;
}

/** Number of weights: `135M`, `1.2B`. */
export function parameters(n: number): string {
  if (n < 1e9) return `${count(n / 1e6)}M`;
  return `${tenth.format(n / 1e9)}B`;
}

/** `231 tokens/s`, with a decimal where it matters. */
export function speed(tokensPerSecond: number): string {
  return `${(tokensPerSecond < 20 ? tenth : whole).format(tokensPerSecond)} tokens/s`;
}

/** `0.04 s`, `1.3 s`, `12 s` */
export function seconds(s: number): string {
  if (s < 0.1) return `${s.toFixed(2)} s`;
  return `${(s < 10 ? tenth : whole).format(s)} s`;
}

/** `43 %` */
export function percent(fraction: number): string {
  return `${whole.format(Math.min(1, Math.max(0, fraction)) * 100)} %`;
}

/** The heading under which a conversation of that time stands in the list. */
export function dayGroup(time: number, now: number): string {
  const midnight = new Date(now).setHours(0, 0, 0, 0);
  const days = Math.round((midnight - new Date(time).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "This week";
  if (days < 30) return "This month";
  return new Date(time).toLocaleDateString("en", { month: "long", year: "numeric" });
}
