// Syntax highlighting as a list of spans; code never becomes HTML text.

import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

const lowlight = createLowlight({
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
});
lowlight.registerAlias({ bash: ["console", "zsh"], ini: ["toml"], xml: ["svelte", "vue"] });

/**
 * Maximum length in characters of highlighted code, so that highlighting does not delay a frame.
 */
const MAX_LENGTH = 20_000;

/** A span of code with one highlight class; `null` for plain code. */
export interface Span {
  text: string;
  kind: string | null;
}

/** Splits code into highlighted spans; their joined texts are the code. */
export function highlight(code: string, language: string): Span[] {
  if (code.length > MAX_LENGTH || !lowlight.registered(language)) return [{ text: code, kind: null }];
  const spans: Span[] = [];
  collect(lowlight.highlight(language, code).children, null, spans);
  return spans;
}

type Nodes = ReturnType<typeof lowlight.highlight>["children"];

function collect(nodes: Nodes, kind: string | null, into: Span[]): void {
  for (const node of nodes) {
    if (node.type === "text") into.push({ text: node.value, kind });
    else if (node.type === "element") {
      const names = node.properties.className;
      const own = Array.isArray(names) ? String(names[0] ?? "").replace(/^hljs-/, "") : null;
      collect(node.children as Nodes, own || kind, into);
    }
  }
}
