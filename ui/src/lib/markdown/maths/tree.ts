// Converts KaTeX's tree of a formula to a tree with only listed elements, attributes and styles.

/** A formula that is larger, or nested deeper, is shown as its source. */
const MAX_NODES = 10_000;
const MAX_DEPTH = 400;

const HTML = "http://www.w3.org/1999/xhtml";
const SVG = "http://www.w3.org/2000/svg";
const MATHML = "http://www.w3.org/1998/Math/MathML";

export interface MathsElement {
  namespace: string;
  name: string;
  attributes: Map<string, string>;
  styles: Map<string, string>;
  children: (MathsElement | string)[];
}

/**
 * A node of KaTeX: HTML has classes, MathML has a type, a path has a name, a space has a character.
 */
export interface KatexNode {
  type?: string;
  text?: string;
  character?: string | null;
  width?: number;
  italic?: number;
  pathName?: string;
  classes?: string[];
  attributes?: Record<string, unknown>;
  style?: Record<string, unknown>;
  children?: KatexNode[];
  toMarkup?: () => string;
}

const MATHML_ELEMENTS = new Set(
  "math menclose mfrac mglyph mi mn mo mover mpadded mphantom mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover semantics".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  (
    "accent accentunder aria-hidden columnalign columnlines columnspacing depth display displaystyle fence height largeop linebreak linethickness lspace mathbackground " +
    "mathcolor mathsize mathvariant maxsize minsize notation preserveAspectRatio rowlines rowspacing rspace scriptlevel separator stretchy stroke-width valign viewBox " +
    "voffset width x1 x2 y1 y2"
  ).split(" "),
);
const STYLES = new Set(
  (
    "backgroundColor borderBottomWidth borderColor borderRightStyle borderRightWidth borderStyle borderTopWidth borderWidth bottom color height left margin marginLeft " +
    "marginRight marginTop minWidth paddingLeft position textShadow top verticalAlign width"
  ).split(" "),
);
/** The color that KaTeX gives to a command that it does not support. */
export const UNSUPPORTED = "unsupported";

/** Numbers, units, colors and words: nothing that could name an address or call a function. */
const VALUE = /^[\w.,%#+ -]{1,200}$/;
const PATH = /^[\sMLHVCSQTAZmlhvcsqtaz\d.,+-]{1,40000}$/;

/** The tree of a formula. Throws if the formula is too large or has an unsupported command. */
export function convert(root: KatexNode): MathsElement {
  let count = 0;

  function visit(node: KatexNode, depth: number): (MathsElement | string)[] {
    if (++count > MAX_NODES || depth > MAX_DEPTH) throw new RangeError("The formula is too large.");
    if (node.style?.color === UNSUPPORTED || node.attributes?.mathcolor === UNSUPPORTED)
      throw new TypeError("A command is not allowed.");
    const converted = element(node);
    if (typeof converted === "string") return [converted];
    const children = (node.children ?? []).flatMap((child) => visit(child, depth + 1));
    if (!converted) return children;
    if (converted.name !== "path") converted.children.push(...children);
    return [converted];
  }

  const [top] = visit(root, 1);
  if (!top || typeof top === "string") throw new TypeError("A formula must be an element.");
  return top;
}

/** The number of nodes in a tree. */
export function size(tree: MathsElement): number {
  return tree.children.reduce((sum, child) => sum + (typeof child === "string" ? 1 : size(child)), 1);
}

/** The element of a node without its children; `null` if only the children are kept. */
function element(node: KatexNode): MathsElement | string | null {
  if (node.pathName !== undefined) return path(node);
  if (node.character !== undefined)
    return node.character ?? plain(MATHML, "mspace", { width: `${(node.width ?? 0).toFixed(4)}em` });
  if (node.type !== undefined) return mathml(node);
  if (node.text !== undefined) return symbol(node);
  if (node.classes === undefined) return plain(SVG, node.children ? "svg" : "line", node.attributes);
  return node.attributes ? html(node) : null;
}

function mathml(node: KatexNode): MathsElement | string | null {
  // The source annotation would be read aloud and found a second time.
  if (node.type === "annotation") return "";
  return MATHML_ELEMENTS.has(node.type ?? "") ? plain(MATHML, node.type ?? "", node.attributes) : null;
}

function html(node: KatexNode): MathsElement {
  const result = plain(HTML, "span", node.attributes);
  const classes = (node.classes ?? []).filter((name) => /^[\w-]+$/.test(name)).join(" ");
  if (classes !== "") result.attributes.set("class", classes);
  for (const [name, value] of Object.entries(node.style ?? {})) {
    if (STYLES.has(name) && VALUE.test(String(value))) result.styles.set(name, String(value));
  }
  return result;
}

function symbol(node: KatexNode): MathsElement | string {
  const text = node.text ?? "";
  if (!node.classes) return text;
  const result = html(node);
  if (node.italic !== undefined && node.italic > 0) result.styles.set("marginRight", `${node.italic.toFixed(4)}em`);
  result.children.push(text);
  return result.attributes.size + result.styles.size > 0 ? result : text;
}

function path(node: KatexNode): MathsElement {
  const pathData = /^<path d="([^"<>]*)"\/>$/.exec(node.toMarkup?.() ?? "")?.[1] ?? "";
  const result = plain(SVG, "path", {});
  if (PATH.test(pathData)) result.attributes.set("d", pathData);
  return result;
}

function plain(namespace: string, name: string, attributes: Record<string, unknown> = {}): MathsElement {
  const result: MathsElement = { namespace, name, attributes: new Map(), styles: new Map(), children: [] };
  for (const [key, value] of Object.entries(attributes)) {
    const text = String(value);
    if (ATTRIBUTES.has(key) && VALUE.test(text)) result.attributes.set(key, text);
    // The content security policy forbids the style attribute, not the property.
    const width = key === "style" ? /^width:([\d.]+em);?$/.exec(text)?.[1] : undefined;
    if (width) result.styles.set("width", width);
  }
  return result;
}
