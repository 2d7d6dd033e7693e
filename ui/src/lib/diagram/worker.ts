// Draws diagrams beside the page, which ends it if a diagram takes too long.

import { draw } from "./draw";
import { FONT, type Drawing, type Measure } from "./drawing";

export interface DrawRequest {
  id: number;
  source: string;
}

export interface DrawReply {
  id: number;
  /** `null`: it cannot be drawn. */
  drawing: Drawing | null;
}

/** Letters differ a little from font to font. */
const TOLERANCE = 1.06;

function measureText(): Measure {
  const context = typeof OffscreenCanvas === "undefined" ? null : new OffscreenCanvas(1, 1).getContext("2d");
  if (!context) return (text) => text.length * 7.4;
  context.font = FONT;
  return (text) => context.measureText(text).width * TOLERANCE;
}

const measure = measureText();

self.onmessage = ({ data }: MessageEvent<DrawRequest>) => {
  let drawing: Drawing | null = null;
  try {
    drawing = draw(data.source, measure);
  } catch {
    // Shown as its source.
  }
  const reply: DrawReply = { id: data.id, drawing };
  self.postMessage(reply);
};
