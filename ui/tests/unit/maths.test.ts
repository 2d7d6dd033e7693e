import { describe, expect, test, vi } from "vitest";
import { BlockReader, type Token } from "../../src/lib/markdown/blocks";
import { MAX_SOURCE } from "../../src/lib/markdown/maths/delimiters";
import { formula } from "../../src/lib/markdown/maths/katex";
import { Formulas } from "../../src/lib/markdown/maths/formulas";
import { Room } from "../../src/lib/markdown/maths/room";
import { convert, size, type KatexNode, type MathsElement } from "../../src/lib/markdown/maths/tree";
import { FakeWorkers } from "./workers";

/** The formulas in a text, displays in brackets. */
function formulas(text: string): string[] {
  const sources: string[] = [];
  const visit = (tokens: readonly Token[]) => {
    for (const token of tokens) {
      if (token.type === "maths") sources.push(token.display ? `[${token.text}]` : token.text);
      else if (token.type === "list") for (const item of token.items) visit(item.tokens);
      else if (token.type === "table")
        for (const row of [token.header, ...token.rows]) for (const cell of row) visit(cell.tokens);
      else if ("tokens" in token && token.tokens) visit(token.tokens);
    }
  };
  visit(new BlockReader().read(text));
  return sources;
}

test.each<[string, string[]]>([
  ["$x$", ["x"]],
  ["a $x_1$, $y_2$ b", ["x_1", "y_2"]],
  ["\\(x\\) and \\[y\\]", ["x", "[y]"]],
  ["so $$x$$ it is", ["[x]"]],
  ["$$x$$", ["[x]"]],
  ["$$\nx\n= y\n$$", ["[x\n= y]"]],
  ["text\n$$\nx\n$$\ntext", ["[x]"]],
  ["$$\nx\n- y\n+ z\n$$", ["[x\n- y\n+ z]"]],
  ["\\[\nx\n\\]", ["[x]"]],
  ["- a\n  $$\n  x\n  $$", ["[x]"]],
  ["> $$\n> x\n> $$", ["[x]"]],
  ["| $a$ | b |\n|---|---|\n| $c$ | d |", ["a", "c"]],
  ["**bold $x$ text**", ["x"]],
  ["*a $b*c$ d*", ["b*c"]],
  ["*a \\(b*c\\) d*", ["b*c"]],
  ["$a*b$ and $c*d$", ["a*b", "c*d"]],
  ["a ``$x$ ` *`` b $y$", ["y"]],
  ["$\\$5$", ["\\$5"]],
  ["$f(x) = 5$.", ["f(x) = 5"]],
  // Prices, and what else has dollars.
  ["It costs $5 and then $10.", []],
  ["$5-$10", []],
  ["From $20 to $30, or 40$.", []],
  ["$5 apples$", []],
  ["US$5 and CA$6$", []],
  ["$HOME/bin:$PATH", []],
  ["$HOME and $PATH", []],
  ["\\$x\\$ and \\$", []],
  ["$ x $", []],
  ["$$$$ and $$", []],
  ["$x", []],
  ["$$\nx\n\ny\n$$", []],
  // Code is not maths.
  ["`$x$`", []],
  ["```\n$$\nx\n$$\n```", []],
  ["    $$x$$", []],
  ["$a `b$ c`", []],
])("the formulas in %j are %j", (text, expected) => {
  expect(formulas(text)).toEqual(expected);
});

function elements(tree: MathsElement): MathsElement[] {
  return [tree, ...tree.children.flatMap((child) => (typeof child === "string" ? [] : elements(child)))];
}

const VALID = [
  "x^2",
  "\\frac{a}{b}",
  "\\sqrt[3]{x}",
  "\\sum_{i=0}^n i",
  "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}",
  "\\left(\\frac{a}{b}\\right)",
  "\\text{if } x > 0",
  "\\vec{v}\\cdot\\hat{w}",
  "\\begin{aligned}a&=b\\\\&=c\\end{aligned}",
  "\\underbrace{x+y}_{n}",
  "\\xrightarrow{f}",
  "\\color{red}{x}",
  "\\boxed{x}",
  "\\mathbb{R}",
  "\\cancel{x}",
  "\\begin{cases}1\\\\2\\end{cases}",
  "é 日本",
  "\\tag{1} x",
  "\\phase{x}",
  "\\pmb{x}",
  "\\fbox{x}",
];

describe("a formula", () => {
  test.each(VALID)("%s becomes elements of HTML, MathML and SVG", (source) => {
    for (const display of [false, true]) {
      if (source.includes("\\tag") && !display) continue;
      const tree = formula(source, display);
      expect(tree, source).not.toBeNull();
      const names = elements(tree as MathsElement).map(({ name }) => name);
      expect(names).toContain("math");
      expect(names).not.toContain("annotation");
    }
  });

  test("has its lines and roots drawn", () => {
    const paths = elements(formula("\\sqrt{\\frac{a}{b}}", true) as MathsElement).filter(({ name }) => name === "path");
    expect(paths.length).toBeGreaterThan(0);
    for (const path of paths) expect(path.attributes.get("d")).toMatch(/^M/);
  });

  test.each([
    "\\frac{1}{2",
    "\\undefined",
    "}",
    "x^^2",
    "\\begin{matrix}",
    "\\def\\a{\\a\\a}\\a",
    "\\def\\a#1{\\a{#1#1}}\\a{x}",
    "{".repeat(50_000),
    "\\sqrt{".repeat(5_000) + "}".repeat(5_000),
    "\\newcommand{\\x}{\\x\\x}\\x",
    "x&y",
  ])("%# without sense or end is no formula", (source) => {
    expect(formula(source, true)).toBeNull();
  });

  test.each([
    "\\href{javascript:alert(1)}{x}",
    "\\url{javascript:alert(1)}",
    "\\includegraphics[width=9em]{https://example.com/x.png}",
    "\\htmlId{app}{x}",
    "\\htmlClass{window}{x}",
    "\\htmlStyle{position: fixed; inset: 0}{x}",
    "\\htmlData{x=y}{x}",
    "\\color{url(https://example.com)}x",
    "\\textcolor{red;position:fixed}{x}",
    "\\rule{9999em}{9999em}",
    "\\kern9999em x",
    "\\raisebox{9999em}{x}",
    "\\class{x}{y}",
    "\\style{x}{y}",
    "\\text{<script>alert(1)</script>}",
    "\\text{\\href{x}{y}}",
  ])("%s refers to nothing and is of limited size", (source) => {
    const tree = formula(source, true);
    if (!tree) return;
    for (const { namespace, name, attributes, styles } of elements(tree)) {
      expect([
        "a",
        "img",
        "image",
        "use",
        "script",
        "style",
        "foreignObject",
        "iframe",
        "maction",
        "mglyph",
      ]).not.toContain(name);
      expect(namespace).toMatch(/^http:\/\/www\.w3\.org\/(?:1999\/xhtml|2000\/svg|1998\/Math\/MathML)$/);
      for (const attribute of attributes.keys()) expect(attribute).not.toMatch(/^(?:on|href|src|style|id|xlink|data-)/);
      for (const [style, value] of styles) {
        expect(value, style).not.toMatch(/url|fixed|[():;]/);
        for (const size of value.matchAll(/(-?[\d.]+)em/g))
          expect(Math.abs(Number(size[1])), `${style}: ${value}`).toBeLessThan(100);
      }
    }
  });

  test.each([
    "\\href{https://example.com}{x}",
    "\\url{https://example.com}",
    "\\includegraphics{x}",
    "\\htmlId{a}{x}",
    "a + \\text{\\href{x}{y}}",
  ])("%s is shown as it was written, since nothing of it may be lost", (source) => {
    expect(formula(source, false)).toBeNull();
  });

  test("of any kind takes little time", () => {
    const sources = [
      "\\frac{1}{".repeat(300) + "x" + "}".repeat(300),
      "x^{".repeat(400) + "y" + "}".repeat(400),
      "\\left(".repeat(300) + "\\right)".repeat(300),
      "x+".repeat(1_990) + "x",
      "\\begin{matrix}" + "x&".repeat(1500) + "\\end{matrix}",
      "\\text{" + "word ".repeat(1500) + "}",
    ];
    for (const source of sources) {
      const start = performance.now();
      formula(source.slice(0, MAX_SOURCE), true);
      expect(performance.now() - start, source.slice(0, 30)).toBeLessThan(4_000);
    }
  });

  test.each([
    ["repeats its argument twice", `\\def\\a#1{${"#1".repeat(60)}}\\a{\\a{${"x".repeat(1000)}}}`],
    ["repeats its argument three times", `\\def\\a#1{${"#1".repeat(60)}}\\a{\\a{\\a{${"x".repeat(1000)}}}}`],
    ["is long and is used often", `\\def\\a{${"x".repeat(1000)}}${"\\a".repeat(400)}`],
    ["defines others", `\\def\\a#1{\\def\\b##1{${"#1".repeat(100)}}}\\a{${"##1".repeat(100)}}\\b{${"x".repeat(1000)}}`],
    ["is a new command", `\\newcommand{\\a}[1]{${"#1".repeat(60)}}\\a{\\a{${"x".repeat(1000)}}}`],
    ["is defined globally in a group", `{\\gdef\\a#1{${"#1".repeat(60)}}}\\a{\\a{${"x".repeat(1000)}}}`],
    ["has delimiters", `\\def\\a[#1]{${"#1".repeat(60)}}\\def\\b(#1){${"#1".repeat(60)}}\\b(\\a[${"x".repeat(1000)}])`],
  ])("whose macro %s is refused before it is large", (_, source) => {
    expect(source.length).toBeLessThan(MAX_SOURCE);
    const start = performance.now();
    expect(formula(source, true)).toBeNull();
    expect(performance.now() - start).toBeLessThan(10_000);
  });

  test("keeps macros of its own", () => {
    const text = (source: string) => {
      const tree = formula(source, false);
      expect(tree, source).not.toBeNull();
      return elements(tree as MathsElement).find(({ name }) => name === "mrow")?.children.length;
    };
    expect(text("\\def\\norm#1{\\lVert #1 \\rVert}\\norm{x}+\\norm{\\norm{y}}")).toBe(
      text("\\lVert x \\rVert+\\lVert \\lVert y \\rVert\\rVert"),
    );
    expect(text("\\newcommand{\\mine}{\\mathbb{R}}x \\in \\mine^n")).toBe(text("x \\in \\mathbb{R}^n"));
  });

  test("with more nodes than can be shown, or nested deeper, is refused", () => {
    const leaf = { text: "x", classes: [] };
    expect(() =>
      convert({ classes: [], attributes: {}, children: Array.from({ length: 30_000 }, () => leaf) }),
    ).toThrow(RangeError);
    const nested = (depth: number): KatexNode => ({
      classes: [],
      attributes: {},
      children: depth === 1 ? [leaf] : [nested(depth - 1)],
    });
    expect(size(convert(nested(300)))).toBe(301);
    expect(() => convert(nested(500))).toThrow(RangeError);
  });

  test("has no element, attribute or style that is not listed", () => {
    const tree = convert({
      classes: ["ok", 'no" onclick="x'],
      attributes: { onclick: "x", href: "javascript:x", "aria-hidden": "true", id: "x" },
      style: { height: "1em", backgroundImage: "url(x)", color: "expression(x)", position: "relative" },
      children: [
        { type: "script", attributes: {}, children: [{ text: "x" }] },
        {
          type: "mi",
          attributes: { mathcolor: "red", style: "color:red", "xlink:href": "x" },
          children: [{ text: "y" }],
        },
        { pathName: "x", toMarkup: () => '<path d="M0 0"/>' },
        { pathName: "x", toMarkup: () => '<path d="x(1)"/>' },
      ],
    });
    expect([...tree.attributes]).toEqual([
      ["aria-hidden", "true"],
      ["class", "ok"],
    ]);
    expect([...tree.styles]).toEqual([
      ["height", "1em"],
      ["position", "relative"],
    ]);
    const [text, math, drawn, not] = tree.children as [string, MathsElement, MathsElement, MathsElement];
    expect(text).toBe("x");
    expect([...math.attributes]).toEqual([["mathcolor", "red"]]);
    expect(drawn.attributes.get("d")).toBe("M0 0");
    expect(not.attributes.size).toBe(0);
  });
});

describe("the formulas of a page", () => {
  const tree = convert({ classes: [], attributes: {}, children: [] });
  const large = convert({
    classes: [],
    attributes: {},
    children: Array.from({ length: 9_000 }, () => ({ text: "x", classes: [] })),
  });
  const inline = (source: string) => ({ source, display: false });

  function harness(style: () => Promise<unknown> = async () => {}) {
    const workers = new FakeWorkers<{ source: string; display: boolean }>();
    return { workers, formulas: new Formulas(workers.start, style) };
  }

  test("are typeset once, and shown at once when they are seen again", async () => {
    const { workers, formulas } = harness();
    expect(formulas.known(inline("a"))).toBeUndefined();
    const [a, repeated, display] = [
      formulas.typeset(inline("a")),
      formulas.typeset(inline("a")),
      formulas.typeset({ source: "a", display: true }),
    ];
    workers.last.ready();
    workers.last.reply(tree);
    expect(await a).toBe(tree);
    expect(await repeated).toBe(tree);
    expect(formulas.known(inline("a"))).toBe(tree);
    expect(formulas.known({ source: "a", display: true })).toBeUndefined();
    workers.last.reply(null);
    expect(await display).toBeNull();
    expect(formulas.known({ source: "a", display: true })).toBeNull();
    expect(workers.jobs).toEqual([inline("a"), { source: "a", display: true }]);
    expect(formulas.known(inline("x".repeat(MAX_SOURCE + 1)))).toBeNull();
  });

  test("are not typeset any more once all answers that wait for them were left", async () => {
    const { workers, formulas } = harness();
    const [firstReader, secondReader] = [new AbortController(), new AbortController()];
    const first = formulas.typeset(inline("first"), firstReader.signal);
    void formulas.typeset(inline("left"), firstReader.signal);
    void formulas.typeset(inline("shared"), firstReader.signal);
    const shared = formulas.typeset(inline("shared"), secondReader.signal);
    workers.last.ready();
    firstReader.abort();
    workers.last.reply(tree);
    workers.last.reply(tree);
    expect([await first, await shared]).toEqual([tree, tree]);
    expect(workers.jobs).toEqual([inline("first"), inline("shared")]);
    const repeated = formulas.typeset(inline("left"), secondReader.signal);
    workers.last.reply(tree);
    expect(await repeated).toBe(tree);
  });

  test("are kept up to a size", async () => {
    const { workers, formulas } = harness();
    for (let i = 0; i < 70; i++) {
      const made = formulas.typeset(inline(String(i)));
      workers.last.ready();
      workers.last.reply(large);
      await made;
    }
    expect(formulas.known(inline("69"))).toBe(large);
    const cached = Array.from({ length: 70 }, (_, i) => formulas.known(inline(String(i)))).filter(Boolean);
    expect(cached.length * size(large)).toBeLessThanOrEqual(500_000);
    expect(cached.length).toBeGreaterThan(50);
  });

  test("are shown as their source if one is too slow, and the others are not", async () => {
    vi.useFakeTimers();
    try {
      const { workers, formulas } = harness();
      const [slow, next] = [formulas.typeset(inline("slow")), formulas.typeset(inline("next"))];
      workers.last.ready();
      vi.advanceTimersByTime(500);
      workers.last.ready();
      workers.last.reply(tree);
      expect(await next).toBe(tree);
      vi.advanceTimersByTime(3_000);
      expect(await slow).toBeNull();
      expect(formulas.known(inline("slow"))).toBeNull();
    } finally {
      vi.useRealTimers();
    }
  });

  test("are shown as their source without their style, until it can be loaded", async () => {
    let styles = 0;
    const { workers, formulas } = harness(async () => {
      if (++styles === 1) throw new Error("no style");
    });
    for (const shown of [null, tree]) {
      const made = formulas.typeset(inline("a"));
      workers.last.ready();
      workers.last.reply(tree);
      expect(await made).toBe(shown);
    }
  });

  test("draw a limited number of nodes in one answer", () => {
    const room = new Room();
    const all = Array.from({ length: 200 }, () => ({}));
    const accepted = () => all.filter((formula) => room.take(formula, 1_000)).length;
    expect(accepted()).toBe(50);
    // Formulas that are drawn again need no more room.
    expect(accepted()).toBe(50);
    room.release(all[0] as object);
    expect(room.take(all[150] as object, 1_000)).toBe(true);
    expect(room.take(all[151] as object, 1_000)).toBe(false);
  });
});
