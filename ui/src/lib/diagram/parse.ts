// Parses the source of a diagram.

import { isFlow, parseFlow } from "./flow";
import { NotDrawable, sourceLines, type Diagram } from "./model";
import { isSequence, parseSequence } from "./sequence";
import { isStates, parseStates } from "./states";

/** Parses a flowchart, state diagram or sequence diagram. Throws {@link NotDrawable}. */
export function parseDiagram(source: string): Diagram {
  const lines = sourceLines(source);
  const first = lines[0] ?? "";
  if (isFlow(first)) return parseFlow(lines);
  if (isSequence(first)) return parseSequence(lines);
  if (isStates(first)) return parseStates(lines);
  throw new NotDrawable("The diagram is of another kind.");
}
