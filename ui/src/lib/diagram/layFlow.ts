// Layout of flowcharts.

import { Graph, layout } from "@dagrejs/dagre";
import {
  at,
  curve,
  head,
  line,
  LINE,
  ring,
  sizeOf,
  texts,
  wrap,
  type Drawing,
  type Mark,
  type Measure,
  type Point,
  type Size,
} from "./drawing";
import { NotDrawable, type Flow, type FlowEdge, type FlowNode } from "./model";

const WRAP = 190;
const MARGIN = 12;
/** Padding around the nodes of a group, and above them for its title. */
const GROUP = 14;
const GROUP_TITLE = 28;

interface PlacedNode extends Size, Point {
  lines: string[];
  node: FlowNode;
}

/** An edge's points, and its label's center. */
interface Route {
  points: Point[];
  x: number | undefined;
  y: number | undefined;
}

const NOWHERE = { x: undefined, y: undefined };

interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export function drawFlow(flow: Flow, measure: Measure): Drawing {
  const graph = new Graph({ compound: true, multigraph: true });
  graph.setGraph({ rankdir: flow.direction, nodesep: 34, ranksep: 46, edgesep: 18 });
  const placedNodes = new Map<string, PlacedNode>();
  for (const id of flow.groups.keys()) graph.setNode(groupKey(id), {});
  for (const { id, parent } of flow.groups.values())
    if (parent !== null) graph.setParent(groupKey(id), groupKey(parent));
  for (const node of flow.nodes.values()) {
    const lines = wrap(node.label, WRAP, measure);
    const placedNode = { ...shapeSize(node, sizeOf(lines, measure)), x: 0, y: 0, lines, node };
    placedNodes.set(node.id, placedNode);
    graph.setNode(nodeKey(node.id), placedNode);
    if (node.group !== null) graph.setParent(nodeKey(node.id), groupKey(node.group));
  }
  const labels = flow.edges.map((edge) => wrap(edge.label, WRAP, measure));
  for (const [i, edge] of flow.edges.entries()) {
    const size = sizeOf(labels[i] ?? [], measure);
    const [from, to] = ends(flow, edge);
    graph.setEdge(
      nodeKey(from),
      nodeKey(to),
      { width: size.width + 12, height: size.height + 6, labelpos: "c" },
      String(i),
    );
  }
  layout(graph);

  const untrimmed = flow.edges.map((edge, i): Route => {
    const [from, to] = ends(flow, edge);
    const { points = [], x, y } = graph.edge(nodeKey(from), nodeKey(to), String(i)) as Partial<Route>;
    return { points, x, y };
  });
  const groups = groupBoxes(
    flow,
    placedNodes,
    untrimmed.map((route, i) => labelBoxes(route, labels[i] ?? [], measure)),
    measure,
  );
  const routes = untrimmed.map((route, i) => ({
    ...route,
    points: trimmed(flow, flow.edges[i], route.points, placedNodes, groups),
  }));
  const marks: Mark[] = [
    ...[...groups].flatMap(([id, box]) => groupMarks(box, flow.groups.get(id)?.label ?? [])),
    ...flow.edges.flatMap((edge, i) =>
      edgeMarks(edge, routes[i]?.points ?? [], labels[i] ?? [], routes[i] ?? NOWHERE, measure),
    ),
    ...[...placedNodes.values()].flatMap(nodeMarks),
  ];
  const covered = [
    ...[...placedNodes.values()].map(boxOf),
    ...groups.values(),
    ...routes.flatMap((route, i) => routeBoxes(route, labels[i] ?? [], measure)),
  ];
  const { left, top, right, bottom } = around(covered);
  return {
    type: "flow",
    left: left - MARGIN,
    top: top - MARGIN,
    width: right - left + 2 * MARGIN,
    height: bottom - top + 2 * MARGIN,
    marks,
  };
}

function boxOf({ x, y, width, height }: PlacedNode): Box {
  return { left: x - width / 2, top: y - height / 2, right: x + width / 2, bottom: y + height / 2 };
}

function routeBoxes({ points, x, y }: Route, lines: readonly string[], measure: Measure): Box[] {
  const corners = points.map((point) => ({ left: point.x, top: point.y, right: point.x, bottom: point.y }));
  return [...corners, ...labelBoxes({ x, y }, lines, measure)];
}

function labelBoxes({ x, y }: Pick<Route, "x" | "y">, lines: readonly string[], measure: Measure): Box[] {
  if (lines.length === 0 || x === undefined || y === undefined) return [];
  const { width, height } = sizeOf(lines, measure);
  return [{ left: x - width / 2, top: y - height / 2, right: x + width / 2, bottom: y + height / 2 }];
}

function around(boxes: readonly Box[]): Box {
  return {
    left: Math.min(...boxes.map((box) => box.left)),
    top: Math.min(...boxes.map((box) => box.top)),
    right: Math.max(...boxes.map((box) => box.right)),
    bottom: Math.max(...boxes.map((box) => box.bottom)),
  };
}

// The prefix avoids names of properties that every object has (not text).
const nodeKey = (id: string) => `node ${id}`;
const groupKey = (id: string) => `group ${id}`; // not text

function shapeSize(node: FlowNode, text: Size): Size {
  const width = text.width + 28;
  const height = Math.max(LINE, text.height) + 18;
  switch (node.shape) {
    case "diamond":
      return { width: width + height * 0.9, height: height + text.width * 0.32 };
    case "circle":
    case "doubleCircle": {
      const across = Math.hypot(text.width, text.height) + (node.shape === "circle" ? 18 : 28);
      return { width: across, height: across };
    }
    case "hexagon":
    case "slanted":
    case "flag":
    case "stadium":
    case "subroutine":
      return { width: width + 20, height };
    case "cylinder":
      return { width, height: height + 20 };
    case "start":
    case "end":
      return { width: 18, height: 18 };
    case "bar":
      return { width: 70, height: 7 };
    default:
      return { width, height };
  }
}

function nodeMarks({ x, y, width, height, lines, node }: PlacedNode): Mark[] {
  const left = x - width / 2;
  const top = y - height / 2;
  const right = x + width / 2;
  const bottom = y + height / 2;
  const polygon = (...points: [number, number][]): Mark => ({
    kind: "path",
    role: "node",
    d: `${line(points.map(([px, py]) => ({ x: px, y: py })))}Z`,
  });
  const box = (radius: number): Mark => ({ kind: "box", role: "node", x: left, y: top, width, height, radius });
  const label = texts(lines, x, y, "label");
  switch (node.shape) {
    case "diamond":
      return [polygon([x, top], [right, y], [x, bottom], [left, y]), ...label];
    case "hexagon":
      return [
        polygon([left + 14, top], [right - 14, top], [right, y], [right - 14, bottom], [left + 14, bottom], [left, y]),
        ...label,
      ];
    case "slanted":
      return [polygon([left + 14, top], [right, top], [right - 14, bottom], [left, bottom]), ...label];
    case "flag":
      return [polygon([left, top], [right, top], [right, bottom], [left, bottom], [left + 14, y]), ...label];
    case "circle":
      return [ring({ x, y }, width / 2, "node"), ...label];
    case "doubleCircle":
      return [ring({ x, y }, width / 2, "node"), ring({ x, y }, width / 2 - 5, "node"), ...label];
    case "stadium":
      return [box(height / 2), ...label];
    case "rounded":
      return [box(9), ...label];
    case "subroutine":
      return [
        box(2),
        {
          kind: "path",
          role: "frame",
          d:
            line([
              { x: left + 9, y: top },
              { x: left + 9, y: bottom },
            ]) +
            line([
              { x: right - 9, y: top },
              { x: right - 9, y: bottom },
            ]),
        },
        ...label,
      ];
    case "cylinder":
      return [cylinder(left, top + 9, right, bottom - 9, width / 2), ...texts(lines, x, y + 7, "label")];
    case "start":
      return [ring({ x, y }, 8, "dot")];
    case "end":
      return [ring({ x, y }, 9, "node"), ring({ x, y }, 5, "dot")];
    case "bar":
      return [
        {
          kind: "path",
          role: "dot",
          d: `${line([
            { x: left, y: top },
            { x: right, y: top },
            { x: right, y: bottom },
            { x: left, y: bottom },
          ])}Z`,
        },
      ];
    default:
      return [box(3), ...label];
  }
}

function cylinder(left: number, top: number, right: number, bottom: number, radius: number): Mark {
  const arc = (sweep: number, to: string) => `A${at(radius)} 9 0 0 ${sweep} ${to}`;
  return {
    kind: "path",
    role: "node",
    d: `M${at(left)} ${at(top)}${arc(1, `${at(right)} ${at(top)}`)}V${at(bottom)}${arc(1, `${at(left)} ${at(bottom)}`)}ZM${at(left)} ${at(top)}${arc(0, `${at(right)} ${at(top)}`)}`,
  };
}

function edgeMarks(
  edge: FlowEdge,
  points: readonly Point[],
  lines: readonly string[],
  { x, y }: Pick<Route, "x" | "y">,
  measure: Measure,
): Mark[] {
  const [first, second] = points;
  const last = points.at(-1);
  const beforeLast = points.at(-2);
  if (edge.line === "none" || !first || !second || !last || !beforeLast) return [];
  const marks: Mark[] = [
    { kind: "path", role: "edge", d: curve(points), dashed: edge.line === "dotted", thick: edge.line === "thick" },
  ];
  if (edge.head !== "none") marks.push(head(edge.head, last, beforeLast));
  if (edge.tail !== "none") marks.push(head(edge.tail, first, second));
  if (lines.length > 0 && x !== undefined && y !== undefined) marks.push(...labelMarks(lines, x, y, measure));
  return marks;
}

/** The nodes that an edge joins. A group is represented by its first node. */
function ends(flow: Flow, { from, to }: FlowEdge): [string, string] {
  const node = (id: string) => {
    if (!flow.groups.has(id)) return id;
    const first = [...flow.nodes.values()].find(({ group }) => within(flow, id, group));
    if (!first) throw new NotDrawable("An edge to an empty group.");
    return first.id;
  };
  return [node(from), node(to)];
}

/** Whether `group` is the group `id` or nested in it. */
function within(flow: Flow, id: string, group: string | null | undefined): boolean {
  for (let at = group ?? null; at !== null; at = flow.groups.get(at)?.parent ?? null) if (at === id) return true;
  return false;
}

/** The points of an edge, from the border of one node or group to the border of the other. */
function trimmed(
  flow: Flow,
  edge: FlowEdge | undefined,
  points: readonly Point[],
  placedNodes: ReadonlyMap<string, PlacedNode>,
  groups: ReadonlyMap<string, Box>,
): Point[] {
  if (!edge || points.length < 2) return [];
  const [from, to] = ends(flow, edge).map((id) => placedNodes.get(id));
  if (!from || !to) return [];
  if (from === to) return loop(from, flow.direction === "LR" || flow.direction === "RL");
  const fromBorder = clipStart(points, from, groups.get(edge.from), to);
  return clipStart(fromBorder.toReversed(), to, groups.get(edge.to), from).toReversed();
}

/** Clips the start of a line to the border of its node or group. */
function clipStart(points: readonly Point[], node: PlacedNode, group: Box | undefined, other: Point): Point[] {
  return group && !inside(group, other)
    ? leaving(points, group)
    : [border(node, points[1] ?? other), ...points.slice(1)];
}

/** The points of an edge from a node to itself, on its right side or below it. */
function loop({ x, y, width, height }: PlacedNode, below: boolean): Point[] {
  const away = 26;
  const side = x + width / 2;
  const bottom = y + height / 2;
  return below
    ? [
        { x: x - 12, y: bottom },
        { x: x - 12, y: bottom + away },
        { x: x + 12, y: bottom + away },
        { x: x + 12, y: bottom },
      ]
    : [
        { x: side, y: y - 9 },
        { x: side + away, y: y - 9 },
        { x: side + away, y: y + 9 },
        { x: side, y: y + 9 },
      ];
}

function inside({ left, top, right, bottom }: Box, { x, y }: Point): boolean {
  return x > left && x < right && y > top && y < bottom;
}

/** The part of a line outside the box in which it starts. */
function leaving(points: readonly Point[], box: Box): Point[] {
  const out = points.findIndex((point) => !inside(box, point));
  const outer = points[out];
  const inner = points[out - 1];
  if (!outer || !inner) return [...points];
  const dx = outer.x - inner.x;
  const dy = outer.y - inner.y;
  const across = dx === 0 ? Infinity : ((dx > 0 ? box.right : box.left) - inner.x) / dx;
  const up = dy === 0 ? Infinity : ((dy > 0 ? box.bottom : box.top) - inner.y) / dy;
  const part = Math.min(across, up);
  return [{ x: inner.x + dx * part, y: inner.y + dy * part }, ...points.slice(out)];
}

function labelMarks(lines: readonly string[], x: number, y: number, measure: Measure): Mark[] {
  const { width, height } = sizeOf(lines, measure);
  return [
    {
      kind: "box",
      role: "backdrop",
      x: x - width / 2 - 4,
      y: y - height / 2 - 1,
      width: width + 8,
      height: height + 2,
      radius: 3,
    },
    ...texts(lines, x, y, "label"),
  ];
}

/** Intersection of a node's border with the line from its center to a point. */
function border({ x, y, width, height, node }: PlacedNode, to: Point): Point {
  const dx = to.x - x;
  const dy = to.y - y;
  const across = width / 2;
  const up = height / 2;
  if (dx === 0 && dy === 0) return { x, y };
  const round =
    node.shape === "circle" || node.shape === "doubleCircle" || node.shape === "start" || node.shape === "end";
  const scale = round
    ? across / Math.hypot(dx, dy)
    : node.shape === "diamond"
      ? 1 / (Math.abs(dx) / across + Math.abs(dy) / up)
      : Math.min(across / Math.abs(dx), up / Math.abs(dy));
  return { x: x + dx * scale, y: y + dy * scale };
}

/** The boxes of groups around their contents, outer groups first. */
function groupBoxes(
  flow: Flow,
  placedNodes: ReadonlyMap<string, PlacedNode>,
  labels: readonly Box[][],
  measure: Measure,
): Map<string, Box> {
  const boxes = new Map<string, Box>();
  // A group is declared after the one around it.
  for (const { id, label } of [...flow.groups.values()].reverse()) {
    const nodes = [...placedNodes.values()].filter(({ node }) => node.group === id).map(boxOf);
    const inner = [...flow.groups.values()].flatMap((group) =>
      group.parent === id ? (boxes.get(group.id) ?? []) : [],
    );
    const inGroup = (end: string) => within(flow, id, flow.nodes.get(end)?.group);
    const texts = flow.edges.flatMap(({ from, to }, i) => (inGroup(from) && inGroup(to) ? (labels[i] ?? []) : []));
    const all = [...nodes, ...inner, ...texts];
    if (nodes.length + inner.length === 0) continue;
    const { left, top, right, bottom } = around(all);
    const title = sizeOf([label.join(" ")], measure).width + 20;
    boxes.set(id, {
      left: left - GROUP,
      top: top - (label.length > 0 ? GROUP_TITLE : GROUP),
      right: Math.max(right + GROUP, left - GROUP + title),
      bottom: bottom + GROUP,
    });
  }
  return new Map([...boxes].reverse());
}

function groupMarks({ left, top, right, bottom }: Box, label: readonly string[]): Mark[] {
  const title = label.join(" ");
  return [
    { kind: "box", role: "group", x: left, y: top, width: right - left, height: bottom - top, radius: 6 },
    ...(title === ""
      ? []
      : [
          {
            kind: "text" as const,
            role: "title" as const,
            x: left + 10,
            y: top + 14,
            text: title,
            anchor: "start" as const,
          },
        ]),
  ];
}
