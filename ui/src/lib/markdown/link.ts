// Allowed link addresses, and the destination shown next to a link.

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

/** The address if its protocol is allowed, else `null`. */
export function safeAddress(href: string): string | null {
  try {
    const url = new URL(href);
    return ALLOWED.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** The short destination of a link; `null` if its text shows it already. */
export function destination(address: string, text: string): string | null {
  const url = new URL(address);
  const place = url.protocol === "mailto:" ? url.pathname : url.hostname.replace(/^www\./, "");
  const shown = text.trim().replace(/\/$/, "");
  return shown === address.replace(/\/$/, "") || shown === place ? null : place;
}
