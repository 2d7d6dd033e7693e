// The style of formulas, loaded with the first one.

import "katex/dist/katex.min.css";
