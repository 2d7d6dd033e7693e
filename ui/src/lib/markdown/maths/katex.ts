// KaTeX with limits. Only the worker of formulas loads it.

import { __renderToDomTree } from "katex";
import { boundExpansions } from "./expansions";
import { convert, UNSUPPORTED, type KatexNode, type MathsElement } from "./tree";

/** Limits of a formula: expansions of macros, and sizes in ems. */
const MAX_EXPANSIONS = 500;
const MAX_EMS = 10;

/** The tree of a formula; `null` if it is invalid or exceeds a limit. */
export function formula(source: string, display: boolean): MathsElement | null {
  const limits = {
    throwOnError: true,
    trust: false,
    errorColor: UNSUPPORTED,
    maxSize: MAX_EMS,
    maxExpand: MAX_EXPANSIONS,
  };
  try {
    // Macros apply to this formula only.
    const bounded = boundExpansions(source);
    return convert(
      __renderToDomTree(bounded.source, {
        displayMode: display,
        output: "htmlAndMathml",
        strict: false,
        macros: bounded.macros,
        ...limits,
      }) as KatexNode,
    );
  } catch {
    // Invalid, too large, or nested too deep for the stack.
    return null;
  }
}
