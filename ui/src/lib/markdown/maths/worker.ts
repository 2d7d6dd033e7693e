// Typesets formulas in a worker, which the page terminates if a formula takes too long.

import { serve } from "../../workers/serve";
import { formula } from "./katex";
import type { Formula } from "./formulas";
import type { MathsElement } from "./tree";

serve<Formula, MathsElement>(({ source, display }) => formula(source, display));
