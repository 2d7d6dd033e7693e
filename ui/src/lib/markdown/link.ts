// Which addresses a link may have, and how an address is shown beside it.

const ALLOWED = new Set(["http:", "https:", "mailto:"]);

/** The address, when it is one that a browser or a mail program opens; nothing else becomes a link. */
export function safeAddress(href: string): string | null {
  try {
    const url = new URL(href);
    return ALLOWED.has(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

/** Where a link leads, in short, unless its text says so already. */
export function destination(address: string, text: string): string | null {
  const url = new URL(address);
  const place = url.protocol === "mailto:" ? url.pathname : url.hostname.replace(/^www\./, "");
  const said = text.trim().replace(/\/$/, "");
  return said === address.replace(/\/$/, "") || said === place ? null : place;
}
