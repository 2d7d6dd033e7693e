// Matches of a search in the rendered messages, marked with the page's custom highlights: no
// element is changed.

import { fold, occurrences } from "../text/fold";

/**
 * Elements whose text is not part of the message: labels, buttons, destinations of links, formulas.
 */
const BESIDE = "button, .head, .place, .number, .maths, .tex, [role=menu]";
const TEXTS = ".bubble .markdown, .answer .markdown";
/** Elements within which a match may continue. */
const INLINE = new Set(["SPAN", "STRONG", "EM", "DEL", "CODE", "A", "SUP"]);
const ALL = "find";
const CURRENT = "find-current";

export const canHighlight = typeof CSS !== "undefined" && "highlights" in CSS && typeof Highlight !== "undefined";

/** The matches in a rendered message, in its order. */
export function rangesIn(message: Element, query: string): Range[] {
  return [...message.querySelectorAll(TEXTS)]
    .filter((text) => !text.closest(".thought"))
    .flatMap((text) => rangesOf(text, query));
}

/** Marks all matches, one of them as the current one. */
export function mark(ranges: readonly Range[], current: Range | null): void {
  if (!canHighlight) return;
  CSS.highlights.set(ALL, new Highlight(...ranges));
  if (current) CSS.highlights.set(CURRENT, new Highlight(current));
  else CSS.highlights.delete(CURRENT);
}

export function unmark(): void {
  if (!canHighlight) return;
  CSS.highlights.delete(ALL);
  CSS.highlights.delete(CURRENT);
}

interface Piece {
  node: Text;
  /** The index of the node's text in the whole. */
  start: number;
}

function rangesOf(root: Element, query: string): Range[] {
  const pieces: Piece[] = [];
  let text = "";
  let block: Element | null = null;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) => {
    if (node.nodeType === Node.ELEMENT_NODE && node.nodeName !== "BR")
      return (node as Element).matches(BESIDE) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP;
    return NodeFilter.FILTER_ACCEPT;
  });
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.nodeName === "BR") {
      text += "\n";
      continue;
    }
    const around = blockOf(node);
    if (block && around !== block) text += "\n";
    block = around;
    pieces.push({ node: node as Text, start: text.length });
    text += (node as Text).data;
  }
  const folded = fold(text);
  return occurrences(folded.text, query).flatMap(
    (at) => range(pieces, folded.origin(at), folded.origin(at + query.length)) ?? [],
  );
}

function blockOf(node: Node): Element | null {
  let element = node.parentElement;
  while (element && INLINE.has(element.tagName)) element = element.parentElement;
  return element;
}

function range(pieces: readonly Piece[], from: number, to: number): Range | null {
  const first = pieceAt(pieces, from);
  const last = pieceAt(pieces, to - 1);
  if (!first || !last) return null;
  const domRange = document.createRange();
  domRange.setStart(first.node, Math.min(from - first.start, first.node.length));
  domRange.setEnd(last.node, Math.min(to - last.start, last.node.length));
  return domRange;
}

/** The piece with the character of an index of the whole: the last that starts at or before it. */
function pieceAt(pieces: readonly Piece[], index: number): Piece | undefined {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((pieces[middle]?.start ?? 0) <= index) low = middle;
    else high = middle - 1;
  }
  return pieces[low];
}
