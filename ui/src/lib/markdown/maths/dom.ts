// Creates DOM elements from the tree of a formula.

import type { MathsElement } from "./tree";

export function mounted(tree: MathsElement): (host: Element) => void {
  return (host) => host.replaceChildren(build(tree));
}

function build(node: MathsElement | string): Node {
  if (typeof node === "string") return document.createTextNode(node);
  const made = document.createElementNS(node.namespace, node.name);
  for (const [name, value] of node.attributes) made.setAttribute(name, value);
  if (made instanceof HTMLElement || made instanceof SVGElement)
    Object.assign(made.style, Object.fromEntries(node.styles));
  made.append(...node.children.map(build));
  return made;
}
