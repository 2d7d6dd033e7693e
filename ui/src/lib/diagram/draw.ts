// A diagram's source as a drawing.

import { drawFlow } from "./layFlow";
import { drawSequence } from "./laySequence";
import type { Drawing, Measure } from "./drawing";
import { parseDiagram } from "./parse";

/** Throws `NotDrawable`. */
export function draw(source: string, measure: Measure): Drawing {
  const diagram = parseDiagram(source);
  return diagram.type === "flow" ? drawFlow(diagram, measure) : drawSequence(diagram, measure);
}
