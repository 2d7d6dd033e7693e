// Selects the tests that a change of the page can affect, for quick runs during development.
// `node scripts/affected.mjs FILE...` prints filters for `npx vitest run`, one per line, or `all`.
// Unit tests are always included. Before a change is merged, all tests run.
//
// A component affects the test files in which it was rendered (`tests/browser/rendered.json`). A
// module affects the test files of the components that import it. Any other file affects all tests.
// To record the rendered components:
//   HEARTH_RENDERED=FOLDER npm test    writes them to a folder, one file per test file
//   node scripts/affected.mjs --record FOLDER   updates rendered.json from the folder
//   node scripts/affected.mjs --check FOLDER    fails if a rendered component is not recorded

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { isAbsolute, join, posix, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TABLE = join(ROOT, "tests/browser/rendered.json");

/** Files that no browser test depends on. */
const NO_BROWSER = [
  /^tests\/unit\//,
  /^tests\/browser\/rendered\.json$/,
  /^scripts\/(?:affected|frames|shots|untranslated)\.mjs$/,
  /^README\.md$/,
];

/** @param {string} path */
const read = (path) => readFileSync(join(ROOT, path), "utf8");

/**
 * The files below a folder with one of the given endings.
 * @param {string} folder
 * @param {string[]} endings
 * @returns {string[]}
 */
const files = (folder, ...endings) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" })
    .map((path) => `${folder}/${path.replaceAll("\\", "/")}`)
    .filter((path) => endings.some((ending) => path.endsWith(ending)))
    .sort();

/** Names of the browser's test files, without folder and ending. */
export const testNames = () => files("tests/browser", ".test.ts").map((path) => posix.basename(path, ".test.ts"));

export const components = () => files("src", ".svelte");

/**
 * The test files in which each component was rendered.
 * @returns {Record<string, string[]>}
 */
export const rendered = () => JSON.parse(readFileSync(TABLE, "utf8"));

/**
 * The files that a file imports, without type-only imports.
 * @param {string} path
 */
function imports(path) {
  const text = read(path).replace(/^\s*(?:import|export) type [^;]*;/gm, "");
  const named = [...text.matchAll(/(?:\bfrom|\bimport|\bimport\(|new URL\()\s*["'](\.[^"']+)["']/g)].map((match) =>
    posix.join(posix.dirname(path), match[1] ?? ""),
  );
  return named.flatMap((name) =>
    ["", ".ts", ".svelte.ts", "/index.ts"]
      .map((ending) => name + ending)
      .filter((at) => /\.\w+$/.test(at) && existsSync(join(ROOT, at)))
      .slice(0, 1),
  );
}

/** The files that import each file. */
function importers() {
  /** @type {Map<string, string[]>} */
  const importersOf = new Map();
  for (const path of [...files("src", ".ts", ".svelte"), ...files("tests/browser", ".ts")])
    for (const imported of imports(path)) importersOf.set(imported, [...(importersOf.get(imported) ?? []), path]);
  return importersOf;
}

/**
 * The names of the browser's test files that changes of files can affect.
 * @param {string[]} changed paths from `ui/`
 * @param {Record<string, string[]>} [table]
 */
export function affected(changed, table = rendered()) {
  const all = testNames();
  const importersOf = importers();
  /** @type {Set<string>} */
  const names = new Set();
  const seen = new Set();
  /** @param {string} path */
  const add = (path) => {
    if (seen.has(path)) return;
    seen.add(path);
    const test = /^tests\/browser\/([^/]+)\.test\.ts$/.exec(path)?.[1];
    if (test !== undefined) return void names.add(test);
    const isComponent = path.endsWith(".svelte");
    const tests = table[path];
    if (isComponent && tests) {
      for (const name of tests) names.add(name);
      // A global style applies to the whole page. Other files may import from a module script.
      const text = existsSync(join(ROOT, path)) ? read(path) : "";
      if (/^\s*:global/m.test(text)) return everything();
      if (!text.includes("<script module")) return;
    }
    const users = importersOf.get(path) ?? [];
    // A file without importers, such as the entry point, can affect every test.
    if (users.length === 0) return everything();
    users.forEach(add);
  };
  const everything = () => all.forEach((name) => names.add(name));
  for (const path of changed) {
    if (NO_BROWSER.some((pattern) => pattern.test(path))) continue;
    if (/^(?:src\/.*\.(?:ts|svelte)|tests\/browser\/.*\.ts)$/.test(path)) add(path);
    else everything();
  }
  return all.filter((name) => names.has(name));
}

/**
 * The components that a run rendered, by test file.
 * @param {string} folder
 */
function recorded(folder) {
  return readdirSync(folder).map(
    (file) =>
      /** @type {[string, string[]]} */ ([
        posix.basename(file, ".json"),
        JSON.parse(readFileSync(join(folder, file), "utf8")),
      ]),
  );
}

/** @param {string} folder */
function record(folder) {
  const allTests = testNames();
  const table = rendered();
  for (const [name, paths] of recorded(folder))
    for (const path of components())
      table[path] = [...(table[path] ?? []).filter((other) => other !== name), ...(paths.includes(path) ? [name] : [])];
  const rows = components().map((path) => [path, (table[path] ?? []).filter((name) => allTests.includes(name)).sort()]);
  writeFileSync(
    TABLE,
    `{\n${rows.map(([path, names]) => `  ${JSON.stringify(path)}: ${JSON.stringify(names)}`).join(",\n")}\n}\n`,
  );
}

/** @param {string} folder */
function check(folder) {
  const table = rendered();
  const missing = recorded(folder).flatMap(([name, paths]) =>
    paths.filter((path) => !table[path]?.includes(name)).map((path) => `${name} renders ${path}`),
  );
  if (missing.length === 0) return;
  console.error(`Not in tests/browser/rendered.json (see scripts/affected.mjs):\n${missing.join("\n")}`);
  process.exitCode = 1;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [first = "", ...rest] = process.argv.slice(2);
  if (first === "--record") record(rest[0] ?? "");
  else if (first === "--check") check(rest[0] ?? "");
  else {
    // From the root of the repository, from ui/, or absolute.
    const paths = [first, ...rest]
      .filter((path) => path !== "")
      .map((path) =>
        (isAbsolute(path) ? relative(ROOT, path) : path).replaceAll("\\", "/").replace(/^(?:\.\/)?ui\//, ""),
      );
    const names = affected(paths);
    console.log(
      names.length === testNames().length
        ? "all"
        : ["tests/unit", ...names.map((name) => `tests/browser/${name}.test.ts`)].join("\n"),
    );
  }
}
