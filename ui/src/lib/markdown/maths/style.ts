// The style sheet of formulas, loaded with the first formula.

import "katex/dist/katex.min.css";
