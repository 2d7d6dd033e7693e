// Formulas of an answer: normal ones, and ones that take as much time or memory as possible.

const nested = (open: string, close: string, times: number) => `${open.repeat(times)}x${close.repeat(times)}`;

/** Formulas that take too long to typeset, or whose result is too large or nested too deeply. */
export const attacks = [
  `\\def\\a#1{${"#1".repeat(60)}}\\a{\\a{${"x".repeat(1000)}}}`,
  `\\def\\a#1{${"#1".repeat(60)}}\\a{\\a{\\a{${"x".repeat(1000)}}}}`,
  nested("\\sqrt{", "}", 560),
  nested("\\begin{matrix}", "\\end{matrix}", 140),
  nested("\\cancel{", "}", 440),
  nested("\\hat{", "}^2", 400),
];

const distinct = Array.from({ length: 30 }, (_, i) => `\\sum_{k=1}^{${i}} \\frac{k^2}{\\sqrt{k+${i}}}`);

/** An answer with every attack between normal formulas. */
export const formulas = [
  "Inline $a^2+b^2=c^2$, before all.",
  ...attacks.map((source, i) => `Attack ${i + 1}:\n\n$$${source}$$\n\nthen $y_{${i}}$.`),
  ...distinct.map((source, i) => `Line ${i}: $${source}$`),
].join("\n\n");

/** Number of formulas of the answer that are rendered as formulas. */
export const SHOWN = 1 + attacks.length + distinct.length;
