import { describe, expect, test } from "vitest";
import { BlockReader, type Token } from "../../src/lib/markdown/blocks";
import { MAX_SOURCE } from "../../src/lib/markdown/maths/delimiters";
import { formula } from "../../src/lib/markdown/maths/katex";
import { Formulas } from "../../src/lib/markdown/maths/formulas.svelte";
import { convert, type MathsElement } from "../../src/lib/markdown/maths/tree";

/** The formulas in a text, displays in brackets. */
function formulas(text: string): string[] {
  const found: string[] = [];
  const visit = (tokens: readonly Token[]) => {
    for (const token of tokens) {
      if (token.type === "maths") found.push(token.display ? `[${token.text}]` : token.text);
      else if (token.type === "list") for (const item of token.items) visit(item.tokens);
      else if (token.type === "table") for (const row of [token.header, ...token.rows]) for (const cell of row) visit(cell.tokens);
      else if ("tokens" in token && token.tokens) visit(token.tokens);
    }
  };
  visit(new BlockReader().read(text));
  return found;
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
])("the formulas in %j are %j", (text, found) => {
  expect(formulas(text)).toEqual(found);
});

function elements(tree: MathsElement): MathsElement[] {
  return [tree, ...tree.children.flatMap((child) => (typeof child === "string" ? [] : elements(child)))];
}

const VALID = [
  "x^2", "\\frac{a}{b}", "\\sqrt[3]{x}", "\\sum_{i=0}^n i", "\\begin{pmatrix}1&2\\\\3&4\\end{pmatrix}", "\\left(\\frac{a}{b}\\right)", "\\text{if } x > 0", "\\vec{v}\\cdot\\hat{w}",
  "\\begin{aligned}a&=b\\\\&=c\\end{aligned}", "\\underbrace{x+y}_{n}", "\\xrightarrow{f}", "\\color{red}{x}", "\\boxed{x}", "\\mathbb{R}", "\\cancel{x}", "\\begin{cases}1\\\\2\\end{cases}", "é 日本", "\\tag{1} x", "\\phase{x}", "\\pmb{x}", "\\fbox{x}",
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
    "\\frac{1}{2", "\\undefined", "}", "x^^2", "\\begin{matrix}", "\\def\\a{\\a\\a}\\a", "\\def\\a#1{\\a{#1#1}}\\a{x}", "{".repeat(50_000), "\\sqrt{".repeat(5_000) + "}".repeat(5_000),
    "\\newcommand{\\x}{\\x\\x}\\x", "x&y",
  ])("%# without sense or end is no formula", (source) => {
    expect(formula(source, true)).toBeNull();
  });

  test.each([
    "\\href{javascript:alert(1)}{x}", "\\url{javascript:alert(1)}", "\\includegraphics[width=9em]{https://example.com/x.png}", "\\htmlId{app}{x}", "\\htmlClass{window}{x}", "\\htmlStyle{position: fixed; inset: 0}{x}",
    "\\htmlData{x=y}{x}", "\\color{url(https://example.com)}x", "\\textcolor{red;position:fixed}{x}", "\\rule{9999em}{9999em}", "\\kern9999em x", "\\raisebox{9999em}{x}", "\\class{x}{y}", "\\style{x}{y}", "\\text{<script>alert(1)</script>}", "\\text{\\href{x}{y}}",
  ])("%s refers to nothing and is of limited size", (source) => {
    const tree = formula(source, true);
    if (!tree) return;
    for (const { namespace, name, attributes, styles } of elements(tree)) {
      expect(["a", "img", "image", "use", "script", "style", "foreignObject", "iframe", "maction", "mglyph"]).not.toContain(name);
      expect(namespace).toMatch(/^http:\/\/www\.w3\.org\/(?:1999\/xhtml|2000\/svg|1998\/Math\/MathML)$/);
      for (const attribute of attributes.keys()) expect(attribute).not.toMatch(/^(?:on|href|src|style|id|xlink|data-)/);
      for (const [style, value] of styles) {
        expect(value, style).not.toMatch(/url|fixed|[():;]/);
        for (const size of value.matchAll(/(-?[\d.]+)em/g)) expect(Math.abs(Number(size[1])), `${style}: ${value}`).toBeLessThan(100);
      }
    }
  });

  test.each(["\\href{https://example.com}{x}", "\\url{https://example.com}", "\\includegraphics{x}", "\\htmlId{a}{x}", "a + \\text{\\href{x}{y}}"])("%s is shown as it was written, since nothing of it may be lost", (source) => {
    expect(formula(source, false)).toBeNull();
  });

  test("of any kind takes little time", () => {
    const sources = ["\\frac{1}{".repeat(300) + "x" + "}".repeat(300), "x^{".repeat(400) + "y" + "}".repeat(400), "\\left(".repeat(300) + "\\right)".repeat(300), "x+".repeat(1_990) + "x", "\\begin{matrix}" + "x&".repeat(1500) + "\\end{matrix}", "\\text{" + "word ".repeat(1500) + "}"];
    for (const source of sources) {
      const begun = performance.now();
      formula(source.slice(0, MAX_SOURCE), true);
      expect(performance.now() - begun, source.slice(0, 30)).toBeLessThan(4_000);
    }
  });

  test("with more nodes than can be shown is refused", () => {
    const leaf = { text: "x", classes: [] };
    expect(() => convert({ classes: [], attributes: {}, children: Array.from({ length: 30_000 }, () => leaf) })).toThrow(RangeError);
  });

  test("has no element, attribute or style that is not listed", () => {
    const tree = convert({
      classes: ["ok", "no\" onclick=\"x"],
      attributes: { onclick: "x", href: "javascript:x", "aria-hidden": "true", id: "x" },
      style: { height: "1em", backgroundImage: "url(x)", color: "expression(x)", position: "relative" },
      children: [
        { type: "script", attributes: {}, children: [{ text: "x" }] },
        { type: "mi", attributes: { mathcolor: "red", style: "color:red", "xlink:href": "x" }, children: [{ text: "y" }] },
        { pathName: "x", toMarkup: () => '<path d="M0 0"/>' },
        { pathName: "x", toMarkup: () => '<path d="x(1)"/>' },
      ],
    });
    expect([...tree.attributes]).toEqual([["aria-hidden", "true"], ["class", "ok"]]);
    expect([...tree.styles]).toEqual([["height", "1em"], ["position", "relative"]]);
    const [text, math, drawn, not] = tree.children as [string, MathsElement, MathsElement, MathsElement];
    expect(text).toBe("x");
    expect([...math.attributes]).toEqual([["mathcolor", "red"]]);
    expect(drawn.attributes.get("d")).toBe("M0 0");
    expect(not.attributes.size).toBe(0);
  });
});

describe("the formulas of a page", () => {
  test("share the time of a frame, and are rendered once", async () => {
    const rendered: string[] = [];
    const frames: (() => void)[] = [];
    let time = 0;
    const tree = convert({ classes: [], attributes: {}, children: [] });
    Object.assign(globalThis, { document: {} });
    try {
      const formulas = new Formulas(
        async () => (source) => {
          rendered.push(source);
          time += 5;
          return tree;
        },
        (callback) => frames.push(callback),
        () => time,
      );
      expect(formulas.tree("a", false)).toBeNull();
      await new Promise((resolve) => setTimeout(resolve));
      for (const source of ["a", "b", "c", "a"]) formulas.tree(source, false);
      expect(rendered).toEqual(["a", "b"]);
      expect(frames.length).toBe(1);
      frames[0]?.();
      expect(formulas.tree("c", false)).toBe(tree);
      expect(formulas.tree("a", false)).toBe(tree);
      expect(rendered).toEqual(["a", "b", "c"]);
      expect(formulas.tree("x".repeat(9_000), false)).toBeNull();
    } finally {
      Reflect.deleteProperty(globalThis, "document");
    }
  });
});
