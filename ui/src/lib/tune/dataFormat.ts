// Labels of the formats of datasets.

import { m } from "$messages";
import type { Container, ExampleShape } from "../host";

const containers: Record<Container, () => string> = {
  jsonl: () => "JSONL",
  json: () => "JSON",
  csv: () => "CSV",
  tsv: () => "TSV",
  parquet: () => "Parquet", // not text: a name
  text: m.tune_container_text,
  markdown: () => "Markdown", // not text: a name
};

const shapes: Record<ExampleShape, () => string> = {
  messages: m.tune_shape_messages,
  shareGpt: () => "ShareGPT",
  alpaca: () => "Alpaca", // not text: a name
  promptAnswer: m.tune_shape_prompt_answer,
  text: m.tune_shape_text,
};

/** The file format: `JSONL`. */
export function containerLabel(container: Container): string {
  return containers[container]();
}

/** The format of the examples: `prompt and answer`. */
export function shapeLabel(shape: ExampleShape): string {
  return shapes[shape]();
}
