// A bound on what macros may grow to. KaTeX counts expansions only, and one expansion can be of any length.

/** Tokens that the expansions of a formula may have together. */
const MAX_TOKENS = 20_000;
/** Tokens of one use's arguments, each of which its macro may repeat. */
const MAX_ARGUMENTS = 4_000;

/** The part of KaTeX's macro expander that is bounded. */
interface Expander {
  expandOnce(expandableOnly?: boolean): number | boolean;
  consumeArgs(count: number, delimiters?: string[][]): unknown[][];
}

/** A macro that is expanded before all others: KaTeX gives its expander only to macros. */
const BOUND = "\\bound@expansions";

/** A formula's source and its macros, so that KaTeX refuses it when its expansions grow too long. */
export function boundExpansions(source: string): {
  source: string;
  macros: Record<string, (expander: object) => string>;
} {
  const bound = (expander: object) => {
    limit(expander as Expander);
    return "";
  };
  return { source: `${BOUND} ${source}`, macros: { [BOUND]: bound } };
}

function limit(expander: Expander): void {
  if (Object.hasOwn(expander, "expandOnce")) return;
  const { expandOnce, consumeArgs } = expander;
  let total = 0;
  expander.expandOnce = function (expandableOnly) {
    const tokens = expandOnce.call(this, expandableOnly);
    total += Number(tokens);
    if (total > MAX_TOKENS) throw new RangeError("The expansions are too long.");
    return tokens;
  };
  expander.consumeArgs = function (count, delimiters) {
    const taken = consumeArgs.call(this, count, delimiters);
    if (taken.reduce((sum, { length }) => sum + length, 0) > MAX_ARGUMENTS)
      throw new RangeError("The arguments are too long.");
    return taken;
  };
}
