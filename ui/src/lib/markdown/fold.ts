// Folding of long code.

/** Code with more lines than this is folded to its first ones. */
export const FOLD_ABOVE = 30;
export const FOLDED_LINES = 20;
const MAX_REMEMBERED = 200;

export function lineCount(code: string): number {
  let lines = 1;
  for (let at = code.indexOf("\n"); at >= 0; at = code.indexOf("\n", at + 1)) lines++;
  return lines;
}

export function firstLines(code: string, lines: number): string {
  let end = -1;
  for (let i = 0; i < lines; i++) {
    end = code.indexOf("\n", end + 1);
    if (end < 0) return code;
  }
  return code.slice(0, end);
}

/** Code that the user unfolded. It stays unfolded when it scrolls out of view and back. */
class Opened {
  private readonly codes = new Set<string>();

  has(code: string): boolean {
    return this.codes.has(code);
  }

  add(code: string): void {
    const oldest = this.codes.size >= MAX_REMEMBERED ? this.codes.values().next().value : undefined;
    if (oldest !== undefined) this.codes.delete(oldest);
    this.codes.add(code);
  }

  delete(code: string): void {
    this.codes.delete(code);
  }
}

export const opened = new Opened();
