// Bounds the length of expanded macros. KaTeX counts expansions only, and one expansion can have
// any length.

/** Maximum tokens of all expansions of a formula. */
const MAX_TOKENS = 20_000;
/** Maximum tokens in the arguments of one macro use: the macro may repeat each argument. */
const MAX_ARGUMENTS = 4_000;

/** The methods of KaTeX's macro expander that are wrapped. */
interface Expander {
  expandOnce(expandableOnly?: boolean): number | boolean;
  consumeArgs(count: number, delimiters?: string[][]): unknown[][];
}

/** A macro that is expanded before all others: KaTeX gives its expander only to macros. */
const BOUND = "\\bound@expansions";

/**
 * The source of a formula and its macros, arranged so that KaTeX throws if the expansions grow too
 * long.
 */
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
    const args = consumeArgs.call(this, count, delimiters);
    if (args.reduce((sum, { length }) => sum + length, 0) > MAX_ARGUMENTS)
      throw new RangeError("The arguments are too long.");
    return args;
  };
}
