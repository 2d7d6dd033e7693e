// Finds text in the sources of the page that is not a message:
// `node scripts/untranslated.mjs [FOLDER]` prints it. Text means letters in markup, visible
// attributes, and strings that look like words (a capital and small letters, or two words). A
// string that is not shown to users is marked with `not text` in a comment on its line, on the line
// above, or above the list or the tag that it is in.

import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { parse } from "svelte/compiler";
import ts from "typescript";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Excluded: the fake host and the generated interface. */
const LEFT_OUT = [/src\/lib\/host\//, /\.d\.ts$/];
/** Attributes that are neither displayed nor read aloud. */
const HIDDEN =
  /^(class|style|id|type|role|href|src|for|form|name|value|lang|rel|target|d|viewBox|points|transform|fill|stroke.*|data-.*|testid|icon|slot|autocomplete|inputmode|spellcheck|enterkeyhint|aria-(?!label$|description$|roledescription$|valuetext$|placeholder$).*|bind:.*|on.*|preserveAspectRatio|width|height|popover.*|tabindex|dir|direction|kind|tone|draggable|xmlns|gradientUnits|offset|translate)$/;
/** On components, `name` is text. */
const HIDDEN_OF_COMPONENTS =
  /^(class|id|type|role|testid|icon|kind|tone|data-.*|on.*|href|place|side|align|size|variant|value)$/;

const reads = (/** @type {string} */ text) => /\p{L}{2}/u.test(text);
/** Keys as actions write them. */
const KEYS = /^((Mod|Ctrl|Alt|Shift)\+)+\S+$/;
const words = (/** @type {string} */ text) =>
  !KEYS.test(text) &&
  (/^\P{L}*\p{Lu}\p{Ll}+(?![\w-]*[A-Z_/\\])/u.test(text) ||
    /\p{L}{2,}[,.:;]? \p{L}/u.test(text) ||
    /^ ?\p{Ll}{2,}[,.:]? $|^ \p{Ll}{3,}/u.test(text));

const MARKED = /^\s*(\/\/|<!--|\/\*|\{\/\*).*not text/;
const indentation = (/** @type {string} */ line) => line.search(/\S|$/);

/** Whether a line has a `not text` comment: on it, above it, or above its list or tag. */
function isExcused(/** @type {string[]} */ lines, /** @type {number} */ line) {
  if (/not text/.test(lines[line] ?? "") || MARKED.test(lines[line - 1] ?? "")) return true;
  const inside = indentation(lines[line] ?? "");
  let first = line - 1;
  while (first > 0 && indentation(lines[first] ?? "") >= inside) first--;
  const opens = /([[(]|= \{)$|^\s*<[\w-]+[^>]*$/.test(lines[first] ?? "");
  return opens && MARKED.test(lines[first - 1] ?? "");
}

/** @typedef {{ line: number, text: string }} Issue */

/**
 * The user-visible strings in TypeScript.
 * @param {string} code
 * @param {number} firstLine
 * @returns {Issue[]}
 */
function inScript(code, firstLine) {
  const file = ts.createSourceFile("x.ts", code, ts.ScriptTarget.ES2022, true);
  const lines = code.split("\n");
  /** @type {Issue[]} */
  const issues = [];
  /** @type {(node: ts.Node) => void} */
  const visit = (node) => {
    if (
      ts.isImportDeclaration(node) ||
      ts.isExportDeclaration(node) ||
      ts.isTypeNode(node) ||
      ts.isTypeAliasDeclaration(node) ||
      ts.isInterfaceDeclaration(node)
    )
      return;
    // Internal errors, comparisons, keys and cases are not displayed.
    if (ts.isNewExpression(node) && /(Error|NotDrawable)$/.test(node.expression.getText())) return;
    if (ts.isBinaryExpression(node) && /^[!=]==$/.test(node.operatorToken.getText()))
      return [node.left, node.right].forEach((side) => !ts.isStringLiteral(side) && visit(side));
    if (ts.isCaseClause(node)) return node.statements.forEach(visit);
    // A list of names in one string.
    if (
      ts.isCallExpression(node) &&
      ts.isPropertyAccessExpression(node.expression) &&
      node.expression.name.text === "split" &&
      /^["(]/.test(node.expression.expression.getText())
    )
      return;
    if (ts.isElementAccessExpression(node)) return visit(node.expression);
    if (ts.isPropertyAssignment(node)) return visit(node.initializer);
    if (
      ts.isCallExpression(node) &&
      /(^|\.)(querySelector(All)?|closest|matches|addEventListener|removeEventListener|getItem|setItem|removeItem|getContext|setContext|includes|startsWith|endsWith|has|matchMedia|setAttribute|createElement|split|join|dispatchEvent|toBe|NumberFormat|postMessage|error|warn|showKey)$/.test(
        node.expression.getText(),
      )
    )
      return (visit(node.expression), node.arguments.forEach((a) => !ts.isStringLiteral(a) && visit(a)));
    if (
      (ts.isStringLiteral(node) ||
        ts.isNoSubstitutionTemplateLiteral(node) ||
        ts.isTemplateHead(node) ||
        ts.isTemplateMiddle(node) ||
        ts.isTemplateTail(node)) &&
      words(node.text)
    ) {
      const line = file.getLineAndCharacterOfPosition(node.getStart()).line;
      if (!isExcused(lines, line)) issues.push({ line: firstLine + line, text: node.text });
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return issues;
}

/**
 * The text of a component.
 * @param {string} code
 * @returns {Issue[]}
 */
function inComponent(code) {
  const lines = code.split("\n");
  const lineOf = (/** @type {number} */ position) => code.slice(0, position).split("\n").length - 1;
  const tree = parse(code, { modern: true });
  /** @type {Issue[]} */
  const issues = [];
  for (const script of [tree.module, tree.instance]) {
    if (!script) continue;
    const { start, end } = /** @type {any} */ (script.content);
    issues.push(...inScript(code.slice(start, end), lineOf(start) + 1));
  }
  const add = (/** @type {any} */ node, /** @type {string} */ text) => {
    const line = lineOf(node.start);
    if (!isExcused(lines, line)) issues.push({ line: line + 1, text: text.trim() });
  };
  /** @param {any} node */
  const expression = (node) =>
    issues.push(
      ...inScript(`(${code.slice(node.start, node.end)})`, lineOf(node.start) + 1).filter(
        ({ line }) => !isExcused(lines, line - 1),
      ),
    );
  /** @param {any} node */
  const attribute = (node, /** @type {boolean} */ component) => {
    if (node.type !== "Attribute" && node.type !== "SpreadAttribute") return;
    // The scope of a table header: row or column.
    if (node.type === "Attribute" && node.name === "scope") return;
    if (
      node.type === "Attribute" &&
      (component ? HIDDEN_OF_COMPONENTS : HIDDEN).test(node.name) &&
      !(Array.isArray(node.value)
        ? false
        : node.value?.type === "ExpressionTag" && /^aria-label|title$/.test(node.name))
    )
      return;
    const parts = node.value === true || node.value === undefined ? [] : [node.value].flat();
    for (const part of parts) {
      if (part.type === "Text" && (component ? words(part.data) || /^[A-Z]/.test(part.data) : reads(part.data)))
        add(part, part.data);
      if (part.type === "ExpressionTag") expression(part.expression);
    }
  };
  /** @param {any} node */
  const visit = (node) => {
    if (!node || typeof node !== "object") return;
    if (Array.isArray(node)) return node.forEach(visit);
    if (node.type === "StyleSheet" || node.type === "Script" || node.type === "Comment") return;
    if (node.type === "Text") return reads(node.data) ? add(node, node.data) : undefined;
    if (node.type === "ExpressionTag") return expression(node.expression);
    if (node.attributes) for (const each of node.attributes) attribute(each, node.type === "Component");
    for (const key of ["fragment", "nodes", "body", "consequent", "alternate", "fallback", "pending", "then", "catch"])
      visit(node[key]);
  };
  visit(tree.fragment);
  return issues.map(({ line, text }) => ({ line, text }));
}

/** Every source below a folder, with `path`, `line` and `text`. */
export function untranslated(/** @type {string} */ folder = join(ROOT, "src")) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(svelte|ts)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !LEFT_OUT.some((left) => left.test(path.replaceAll("\\", "/"))))
    .sort()
    .flatMap((path) => {
      const code = readFileSync(path, "utf8");
      const issues = path.endsWith(".svelte") ? inComponent(code) : inScript(code, 1);
      return issues.map(({ line, text }) => ({ path: relative(ROOT, path).replaceAll("\\", "/"), line, text }));
    });
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const issues = untranslated(process.argv[2]);
  for (const { path, line, text } of issues) console.log(`${path}:${line}: ${text.replace(/\s+/g, " ")}`);
  console.log(`${issues.length} texts that are not messages`);
}
