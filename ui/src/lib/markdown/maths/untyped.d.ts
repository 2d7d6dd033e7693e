// KaTeX exports its tree, but not the tree's types.

import type { KatexOptions } from "katex";

declare module "katex" {
  export function __renderToDomTree(source: string, options: KatexOptions): unknown;
}
