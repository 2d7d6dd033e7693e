// Estimated numbers of tokens, for texts that were not tokenized.

/** Characters per token of Chinese, Japanese and Korean, and of other scripts. */
const WIDE = 1.5;
const OTHER = 4;

export function estimateTokens(text: string): number {
  let wide = 0;
  for (let i = 0; i < text.length; i++) if (isWide(text.charCodeAt(i))) wide++;
  return Math.ceil(wide / WIDE + (text.length - wide) / OTHER);
}

/** Whether a character is Chinese, Japanese or Korean. */
function isWide(code: number): boolean {
  if (code < 0x1100) return false;
  return (
    code <= 0x11ff ||
    (code >= 0x2e80 && code <= 0x9fff) ||
    (code >= 0xac00 && code <= 0xd7ff) ||
    (code >= 0xf900 && code <= 0xfaff) ||
    (code >= 0xff00 && code <= 0xffef)
  );
}
