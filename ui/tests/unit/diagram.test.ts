import { describe, expect, test, vi } from "vitest";
import { Diagrams } from "../../src/lib/diagram/diagrams";
import { draw } from "../../src/lib/diagram/draw";
import type { Drawing, Mark } from "../../src/lib/diagram/drawing";
import { LIMITS, NotDrawable, type Flow, type Sequence } from "../../src/lib/diagram/model";
import { parseDiagram } from "../../src/lib/diagram/parse";
import { randomSource } from "./random";
import { FakeWorkers } from "./workers";

const measure = (text: string) => text.length * 7;

/** A flowchart's nodes and edges in a line each. */
function flow(source: string): string[] {
  const { nodes, edges, groups } = parseDiagram(source) as Flow;
  return [
    ...[...nodes.values()].map(
      ({ id, label, shape, group }) => `${id}: ${label.join("/")} (${shape})${group === null ? "" : ` in ${group}`}`,
    ),
    ...edges.map(
      ({ from, to, label, line, tail, head }) =>
        `${from} ${tail === "none" ? "" : `${tail} `}${line} ${head} ${to}${label.length > 0 ? `: ${label.join("/")}` : ""}`,
    ),
    ...[...groups.values()].map(
      ({ id, label, parent }) => `[${id}: ${label.join("/")}]${parent === null ? "" : ` in ${parent}`}`,
    ),
  ];
}

test.each<[string, string[]]>([
  ["graph TD\nA-->B", ["A: A (rectangle)", "B: B (rectangle)", "A solid arrow B"]],
  [
    "flowchart LR; A[Start] --> B{Is it?}; B -->|Yes| C((x)); B -- no --> A",
    [
      "A: Start (rectangle)",
      "B: Is it? (diamond)",
      "C: x (circle)",
      "A solid arrow B",
      "B solid arrow C: Yes",
      "B solid arrow A: no",
    ],
  ],
  [
    "graph TD\n%% comment\nA-.->B==>C---D",
    [
      "A: A (rectangle)",
      "B: B (rectangle)",
      "C: C (rectangle)",
      "D: D (rectangle)",
      "A dotted arrow B",
      "B thick arrow C",
      "C solid none D",
    ],
  ],
  [
    "graph TD\nA & B --> C & D",
    [
      "A: A (rectangle)",
      "B: B (rectangle)",
      "C: C (rectangle)",
      "D: D (rectangle)",
      "A solid arrow C",
      "A solid arrow D",
      "B solid arrow C",
      "B solid arrow D",
    ],
  ],
  [
    "graph TD\nA == yes ==> B -. maybe .-> C <--> D",
    [
      "A: A (rectangle)",
      "B: B (rectangle)",
      "C: C (rectangle)",
      "D: D (rectangle)",
      "A thick arrow B: yes",
      "B dotted arrow C: maybe",
      "C arrow solid arrow D",
    ],
  ],
  [
    "graph TD\nA([a]) --x B[[b]]\nB --o C[(c)]\nD{{d}} --> E[/e/]\nF>f] ~~~ G(((g)))",
    [
      "A: a (stadium)",
      "B: b (subroutine)",
      "C: c (cylinder)",
      "D: d (hexagon)",
      "E: e (slanted)",
      "F: f (flag)",
      "G: g (doubleCircle)",
      "A solid cross B",
      "B solid circle C",
      "D solid arrow E",
      "F none none G",
    ],
  ],
  [
    'graph TD\nA["one<br/>two [x]"] --> B("#quot;q#quot; &amp; #35;")',
    ["A: one/two [x] (rectangle)", 'B: "q" & # (rounded)', "A solid arrow B"],
  ],
  [
    'graph TD\nsubgraph one [First one]\nA --> B\nsubgraph two\nC\nend\nend\nB --> C\nclassDef x fill:#f00\nclass A x\nclick A "javascript:alert(1)"',
    [
      "A: A (rectangle) in one",
      "B: B (rectangle) in one",
      "C: C (rectangle) in two",
      "A solid arrow B",
      "B solid arrow C",
      "[one: First one]",
      "[two: two] in one",
    ],
  ],
  ["graph TD\nA:::red --> node-1.x", ["A: A (rectangle)", "node-1.x: node-1.x (rectangle)", "A solid arrow node-1.x"]],
  [
    "graph TD\nA --> A\nconstructor --> __proto__",
    [
      "A: A (rectangle)",
      "constructor: constructor (rectangle)",
      "__proto__: __proto__ (rectangle)",
      "A solid arrow A",
      "constructor solid arrow __proto__",
    ],
  ],
  ["---\ntitle: x\n---\ngraph TB\nÄ --> 日本", ["Ä: Ä (rectangle)", "日本: 日本 (rectangle)", "Ä solid arrow 日本"]],
  [
    'stateDiagram-v2\n[*] --> Still\nStill --> Moving : push\nMoving --> [*]\nstate "A long one" as L\nL --> Still\nstate F <<fork>>\nF --> L',
    [
      "[*] start : (start)".replace("(start)", "") + " (start)",
      "Still: Still (rounded)",
      "Moving: Moving (rounded)",
      "[*] end :  (end)",
      "L: A long one (rounded)",
      "F:  (bar)",
      "[*] start  solid arrow Still",
      "Still solid arrow Moving: push",
      "Moving solid arrow [*] end ",
      "L solid arrow Still",
      "F solid arrow L",
    ],
  ],
])("the flowchart %j is read", (source, read) => {
  expect(flow(source)).toEqual(read);
});

test("a sequence diagram is read", () => {
  const { actors, steps } = parseDiagram(
    "sequenceDiagram\nautonumber\nparticipant A as Alice<br/>Smith\nactor B\nA->>+B: Hello: you\nB-->>-A: Hi\nA-)C: async\nC--xA: lost\nNote over A,B: a note\nalt good\nA->>A: think\nelse bad\nB->C: x\nend\nrect rgb(1,2,3)\nA->>B: y\nend",
  ) as Sequence;
  expect([...actors.values()].map(({ id, label }) => `${id}: ${label.join("/")}`)).toEqual([
    "A: Alice/Smith",
    "B: B",
    "C: C",
  ]);
  expect(
    steps.map((step) =>
      step.type === "message"
        ? `${step.from}${step.dotted ? "--" : "-"}${step.head} ${step.to}: ${step.text.join("/")}`
        : step.type === "end"
          ? "end"
          : `${step.type} ${step.text.join("/")}`,
    ),
  ).toEqual([
    "A-arrow B: 1. Hello: you",
    "B--arrow A: 2. Hi",
    "A-open C: 3. async",
    "C--cross A: 4. lost",
    "note a note",
    "begin good",
    "A-arrow A: 5. think",
    "else bad",
    "B-none C: 6. x",
    "end",
    "A-arrow B: 7. y",
  ]);
});

test.each([
  "",
  'pie\n"a": 1',
  "gantt\ntitle x",
  "classDiagram\nA <|-- B",
  "graph TD",
  "graph XY\nA-->B",
  "graph TD\nA-->",
  "graph TD\nA[open",
  "graph TD\nA --> g\nsubgraph g\nend",
  "graph TD\n-->B",
  "graph TD\nsubgraph x\nA",
  "graph TD\nend",
  "graph TD\nA@{ shape: cat }",
  "sequenceDiagram",
  "sequenceDiagram\nloop x\nA->>B: y",
  "sequenceDiagram\nA says hello",
  "stateDiagram-v2",
  "stateDiagram-v2\nstate X {\nA --> B",
  "graph TD\n" + "A-->B\n".repeat(201),
  `graph TD\n${Array.from({ length: 101 }, (_, i) => `n${i}`).join("\n")}`,
  `graph TD\nA[${"x".repeat(400)}]`,
  `graph TD\nA[${"x<br>".repeat(30)}]`,
  "graph TD\n" + "x".repeat(10_000),
  "graph TD\n" + `A${" & A".repeat(240)} --> B`,
  "sequenceDiagram\n" + "A->>B: x\n".repeat(301),
])("%j is shown as its source", (source) => {
  expect(() => draw(source, measure)).toThrow(NotDrawable);
});

const EXAMPLES = [
  "graph TD\nA[Start] --> B{Is it?}\nB -->|Yes| C[OK]\nC --> D[Rethink]\nD --> B\nB ---->|No| E[End]\nE --> E",
  "graph LR\nsubgraph one [First]\na1-->a2\nsubgraph inner\na3\nend\nend\nsubgraph two\nb1-->b2\nend\na2-->b1\na3-.->b2",
  "sequenceDiagram\nAlice->>John: Hello John, how are you?\nJohn-->>Alice: Great!\nAlice->>Alice: think about it\nNote right of John: a note that is long enough to be wrapped, and then some\nNote left of Alice: left\nloop Every minute\nalt x\nJohn->>Alice: y\nelse z\nAlice-)John: w\nend\nend",
  "graph TD\nA --> g\nsubgraph g [Group]\nB --> C\nend\ng --> D\nB --> g",
  "stateDiagram-v2\n[*] --> A\nA --> B : go\nB : a described group\nstate B {\n[*] --> C\nC --> [*]\n}\nA --> D\nD --> [*]",
];

function extent(mark: Mark): [number, number][] {
  if (mark.kind === "box")
    return [
      [mark.x, mark.y],
      [mark.x + mark.width, mark.y + mark.height],
    ];
  if (mark.kind === "text") return [[mark.x, mark.y]];
  return [];
}

describe("a drawing", () => {
  test.each(EXAMPLES)("of %j holds all its marks", (source) => {
    const drawing = draw(source, measure);
    expect(drawing.marks.length).toBeGreaterThan(8);
    for (const mark of drawing.marks) {
      if (mark.kind === "path") expect(mark.d).toMatch(/^M[-\d. MLQHVAZza]+$/);
      for (const [x, y] of extent(mark)) {
        expect(Number.isFinite(x) && Number.isFinite(y)).toBe(true);
        expect(x).toBeGreaterThanOrEqual(drawing.left);
        expect(x).toBeLessThanOrEqual(drawing.left + drawing.width);
        expect(y).toBeGreaterThanOrEqual(drawing.top);
        expect(y).toBeLessThanOrEqual(drawing.top + drawing.height);
      }
    }
  });

  test.each(EXAMPLES)("of %j has no nodes on top of each other", (source) => {
    const boxes = draw(source, measure).marks.flatMap((mark) =>
      mark.kind === "box" && mark.role === "node" ? mark : [],
    );
    for (const [i, a] of boxes.entries())
      for (const b of boxes.slice(i + 1))
        expect(
          a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y,
          `${JSON.stringify(a)} ${JSON.stringify(b)}`,
        ).toBe(true);
  });

  test("of random sources is finite, or there is none", () => {
    const pieces = [
      "graph TD\n",
      "sequenceDiagram\n",
      "stateDiagram-v2\n",
      "A",
      "B",
      "[*]",
      " --> ",
      "-->",
      "---",
      "-.->",
      "==>",
      "[",
      "]",
      "(",
      ")",
      "{",
      "}",
      "|",
      '"',
      "\n",
      ";",
      ":",
      " : ",
      "&",
      "subgraph x\n",
      "end\n",
      "state X {\n",
      "}\n",
      "->>",
      "-->>",
      "Note over A: ",
      "loop x\n",
      "<br>",
      "#35;",
      "é",
      "😀",
      "\ud800",
      "x".repeat(60),
      "%%",
      "<script>",
    ];
    let drawn = 0;
    for (let seed = 1; seed <= 3000; seed++) {
      const random = randomSource(seed);
      const kinds = Array.from({ length: 3 + random(8) }, () => pieces[3 + random(pieces.length - 3)] ?? "");
      const source =
        (pieces[random(3)] ?? "") + Array.from({ length: 1 + random(30) }, () => kinds[random(kinds.length)]).join("");
      let drawing: Drawing | null = null;
      try {
        drawing = draw(source, measure);
      } catch (error) {
        expect(error, `seed ${seed}: ${JSON.stringify(source)}`).toBeInstanceOf(NotDrawable);
        continue;
      }
      drawn++;
      expect(JSON.stringify(drawing), `seed ${seed}: ${JSON.stringify(source)}`).not.toMatch(/null|NaN|Infinity/);
    }
    expect(drawn).toBeGreaterThan(100);
  });

  test("has the tags of a label as text, and no styles or links", () => {
    const { marks } = draw(
      'graph TD\nA["<img src=x onerror=\'y\'>"] --> B\nclick A "javascript:x"\nstyle A fill:url(x)\nlinkStyle 0 stroke:red',
      measure,
    );
    expect(marks.flatMap((mark) => (mark.kind === "text" ? mark.text : []))).toEqual(["<img src=x onerror='y'>", "B"]);
    expect(JSON.stringify(marks)).not.toMatch(/javascript|url|red/);
  });

  test("of the largest kinds takes limited time", () => {
    const random = randomSource(7);
    const node = () => `n${random(LIMITS.nodes)}`;
    const lines = (n: number, line: (i: number) => string) => Array.from({ length: n }, (_, i) => line(i)).join("\n");
    const sources: [number, (n: number) => string][] = [
      [LIMITS.nodes, (n) => `graph TD\n${lines(n, (i) => `n${i}`)}`],
      [LIMITS.edges, (n) => `graph TD\n${lines(n, () => `${node()}-->${node()}`)}`],
      [LIMITS.groups, (n) => `graph TD\n${lines(n, (i) => `subgraph g${i}\n${node()}-->m${i}`)}\n${"end\n".repeat(n)}`],
      [LIMITS.actors, (n) => `sequenceDiagram\n${lines(n, (i) => `participant p${i}`)}`],
      [LIMITS.steps, (n) => `sequenceDiagram\n${lines(n, (i) => `p${random(9)}->>p${random(9)}: ${i}`)}`],
    ];
    // The limits bound the time of a layout: larger diagrams are refused before the layout.
    for (const [limit, source] of sources) {
      const measured = vi.fn(measure);
      expect(draw(source(limit), measured).marks.length).toBeGreaterThan(0);
      expect(measured).toHaveBeenCalled();
      measured.mockClear();
      expect(() => draw(source(limit + 1), measured)).toThrow(NotDrawable);
      expect(measured).not.toHaveBeenCalled();
    }
  });
});

describe("the worker of diagrams", () => {
  function harness() {
    const workers = new FakeWorkers<string>();
    return { workers, diagrams: new Diagrams(workers.start) };
  }

  test("draws one after the other, and each source once", async () => {
    const { workers, diagrams } = harness();
    const [a, b, repeated] = [diagrams.draw("a"), diagrams.draw("b"), diagrams.draw("a")];
    workers.last.ready();
    expect(workers.jobs).toEqual(["a"]);
    workers.last.reply({ title: "A" });
    expect(await a).toEqual({ title: "A" });
    expect(await repeated).toEqual({ title: "A" });
    workers.last.reply(null);
    expect(await b).toBeNull();
    expect(workers.all.length).toBe(1);
  });

  test("does not draw what waits in an answer that was left", async () => {
    const { workers, diagrams } = harness();
    const left = new AbortController();
    void diagrams.draw("a");
    void diagrams.draw("b", left.signal);
    const c = diagrams.draw("c");
    workers.last.ready();
    left.abort();
    workers.last.reply(null);
    workers.last.reply({ title: "C" });
    expect(await c).toEqual({ title: "C" });
    expect(workers.jobs).toEqual(["a", "c"]);
  });

  test("is ended if it takes too long or fails, and the next diagram has a new one", async () => {
    vi.useFakeTimers();
    try {
      const { workers, diagrams } = harness();
      const [slow, next] = [diagrams.draw("slow"), diagrams.draw("next")];
      workers.last.ready();
      vi.advanceTimersByTime(5_000);
      expect(await slow).toBeNull();
      expect(workers.all[0]?.ended).toBe(true);
      workers.last.onerror?.call(workers.last as unknown as Worker, { preventDefault: () => {} } as ErrorEvent);
      expect(await next).toBeNull();
      expect(workers.all[1]?.ended).toBe(true);
    } finally {
      vi.useRealTimers();
    }
  });

  test("that cannot be started leaves the source", async () => {
    const diagrams = new Diagrams(() => {
      throw new Error("no workers");
    });
    expect(await diagrams.draw("a")).toBeNull();
  });
});
