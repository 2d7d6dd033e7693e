// Draws diagrams in a worker, which the page terminates if a diagram takes too long.

import { serve } from "../workers/serve";
import { draw } from "./draw";
import { FONT, type Drawing, type Measure } from "./drawing";

/** Margin for differences between fonts. */
const TOLERANCE = 1.06;

function measureText(): Measure {
  const context = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");
  if (!context) return (text) => text.length * 7.4;
  context.font = FONT;
  return (text) => context.measureText(text).width * TOLERANCE;
}

const measure = measureText();

serve<string, Drawing>((source) => draw(source, measure));
