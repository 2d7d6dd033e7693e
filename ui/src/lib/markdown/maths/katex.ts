// KaTeX, loaded with the first formula.

import "katex/dist/katex.min.css";
import { __renderToDomTree } from "katex";
import { convert, type KatexNode, type MathsElement } from "./tree";

/** Limits of a formula: expansions of macros, and sizes in ems. */
const MAX_EXPANSIONS = 500;
const MAX_EMS = 20;

/** The tree of a formula; `null` if it is no maths, or too much. */
export function formula(source: string, display: boolean): MathsElement | null {
  try {
    const node = __renderToDomTree(source, { displayMode: display, output: "htmlAndMathml", throwOnError: true, strict: false, trust: false, maxSize: MAX_EMS, maxExpand: MAX_EXPANSIONS, macros: {} });
    return convert(node as KatexNode);
  } catch {
    // Invalid, too large, or nested too deep for the stack.
    return null;
  }
}
