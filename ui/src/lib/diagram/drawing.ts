// A laid-out diagram: boxes, paths and texts. The role of each gives its color.

export type Role =
  "node" | "group" | "edge" | "head" | "note" | "dot" | "label" | "backdrop" | "title" | "lifeline" | "frame";

export type Mark =
  | { kind: "box"; role: Role; x: number; y: number; width: number; height: number; radius: number }
  | { kind: "path"; role: Role; d: string; dashed?: boolean; thick?: boolean }
  | { kind: "text"; role: Role; x: number; y: number; text: string; anchor: "start" | "middle" };

export interface Drawing {
  type: "flow" | "sequence";
  left: number;
  top: number;
  width: number;
  height: number;
  marks: Mark[];
}

/** The width of a text in pixels. */
export type Measure = (text: string) => number;

export interface Point {
  x: number;
  y: number;
}

/** The font of labels, in canvas notation (not text). */
export const FONT = '13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';
export const LINE = 18;

/** Wraps text to a width at word boundaries. Longer words are broken. */
export function wrap(lines: readonly string[], width: number, measure: Measure): string[] {
  return lines.flatMap((line) => {
    const broken: string[] = [];
    let row = "";
    for (const word of line.split(/ +/).flatMap((long) => long.match(/[\s\S]{1,40}/gu) ?? [""])) {
      const longer = row === "" ? word : `${row} ${word}`;
      if (row !== "" && measure(longer) > width) {
        broken.push(row);
        row = word;
      } else row = longer;
    }
    return [...broken, row];
  });
}

export interface Size {
  width: number;
  height: number;
}

export function sizeOf(lines: readonly string[], measure: Measure): Size {
  return { width: Math.ceil(Math.max(0, ...lines.map(measure))), height: lines.length * LINE };
}

/** Lines of text around a center. */
export function texts(lines: readonly string[], x: number, y: number, role: Role): Mark[] {
  const top = y - ((lines.length - 1) * LINE) / 2;
  return lines.map((text, i) => ({ kind: "text", role, x, y: top + i * LINE, text, anchor: "middle" }));
}

export const at = (value: number) => String(Math.round(value * 10) / 10);

export function line(points: readonly Point[]): string {
  return points.map(({ x, y }, i) => `${i === 0 ? "M" : "L"}${at(x)} ${at(y)}`).join("");
}

/** A path through points with rounded corners. */
export function curve(points: readonly Point[]): string {
  const [first, ...rest] = points;
  if (!first || rest.length < 2) return line(points);
  let path = `M${at(first.x)} ${at(first.y)}`;
  for (let i = 0; i < rest.length - 1; i++) {
    const corner = rest[i] ?? first;
    const next = rest[i + 1] ?? corner;
    const end = i === rest.length - 2 ? next : { x: (corner.x + next.x) / 2, y: (corner.y + next.y) / 2 };
    path += `Q${at(corner.x)} ${at(corner.y)} ${at(end.x)} ${at(end.y)}`;
  }
  return path;
}

/** An arrowhead at a point, in the direction from another point. */
export function head(kind: "arrow" | "cross" | "circle" | "open", tip: Point, from: Point): Mark {
  const length = Math.hypot(tip.x - from.x, tip.y - from.y) || 1;
  const along = { x: (tip.x - from.x) / length, y: (tip.y - from.y) / length };
  const place = (back: number, side: number) => ({
    x: tip.x - along.x * back - along.y * side,
    y: tip.y - along.y * back + along.x * side,
  });
  if (kind === "arrow") return { kind: "path", role: "head", d: `${line([tip, place(9, 4.5), place(9, -4.5)])}Z` };
  if (kind === "open") return { kind: "path", role: "edge", d: line([place(8, 5), tip, place(8, -5)]) };
  if (kind === "cross")
    return {
      kind: "path",
      role: "edge",
      d: line([place(9, 4.5), place(0, -4.5)]) + line([place(9, -4.5), place(0, 4.5)]),
    };
  return ring(place(4.5, 0), 4.5, "head");
}

export function ring({ x, y }: Point, radius: number, role: Role): Mark {
  const r = at(radius);
  return {
    kind: "path",
    role,
    d: `M${at(x - radius)} ${at(y)}a${r} ${r} 0 1 0 ${at(radius * 2)} 0a${r} ${r} 0 1 0 ${at(-radius * 2)} 0Z`,
  };
}
