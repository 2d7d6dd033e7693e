// Draws a diagram from its source.

import { drawFlow } from "./layFlow";
import { drawSequence } from "./laySequence";
import type { Drawing, Measure } from "./drawing";
import { parseDiagram } from "./parse";

/** Parses and lays out a diagram. Throws `NotDrawable`. */
export function draw(source: string, measure: Measure): Drawing {
  const diagram = parseDiagram(source);
  return diagram.type === "flow" ? drawFlow(diagram, measure) : drawSequence(diagram, measure);
}
