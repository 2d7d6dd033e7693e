// Compiles the messages (`messages/LOCALE/*.json`) into the functions that the page imports as
// `$messages`. `--pseudo` adds ar-XB: English with accents, a third longer, right to left. Tests
// and screenshots use it to find text that is not a message and layouts that assume a length or a
// direction. A release has no such locale.

import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { compile } from "@inlang/paraglide-js";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PSEUDO = "ar-XB";

const ACCENTS = new Map([..."aeiouyAEIOUYcnsCNS"].map((letter, i) => [letter, [..."áéíóúýÁÉÍÓÚÝçñšÇÑŠ"][i] ?? letter]));

/**
 * Lengthens and accents a text, but no `{placeholder}`.
 * @param {string} text
 */
function pseudo(text) {
  const accented = text.replace(/\{[^}]*\}|[A-Za-z]/g, (match) => ACCENTS.get(match) ?? match);
  return `⟦${accented}${"·".repeat(Math.ceil(text.length / 3))}⟧`;
}

/**
 * A message of a file: a text, or variants of one.
 * @param {any} message
 * @returns {any}
 */
function pseudoMessage(message) {
  if (typeof message === "string") return pseudo(message);
  return message.map((/** @type {any} */ variants) => ({
    ...variants,
    match: Object.fromEntries(Object.entries(variants.match).map(([form, text]) => [form, pseudo(String(text))])),
  }));
}

/** Writes a project with the pseudo-locale into a folder that git ignores. */
function pseudoProject() {
  const folder = join(ROOT, ".pseudo");
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(ROOT, "messages"), join(folder, "messages"), { recursive: true });
  mkdirSync(join(folder, "messages", PSEUDO));
  for (const file of readdirSync(join(ROOT, "messages/en"))) {
    const messages = JSON.parse(readFileSync(join(ROOT, "messages/en", file), "utf8"));
    const changed = Object.fromEntries(Object.entries(messages).map(([key, message]) => [key, pseudoMessage(message)]));
    writeFileSync(join(folder, "messages", PSEUDO, file), JSON.stringify(changed));
  }
  const settings = JSON.parse(readFileSync(join(ROOT, "project.inlang/settings.json"), "utf8"));
  settings.locales.push(PSEUDO);
  settings.modules = settings.modules.map((/** @type {string} */ path) => path.replace("./", "../"));
  mkdirSync(join(folder, "project.inlang"));
  writeFileSync(join(folder, "project.inlang/settings.json"), JSON.stringify(settings));
  return join(folder, "project.inlang");
}

/** A digest of everything that the compiled messages depend on. */
function digest() {
  const folders = readdirSync(join(ROOT, "messages"), { recursive: true, encoding: "utf8" })
    .sort()
    .map((path) => join("messages", path));
  const files = [
    ...folders.filter((path) => path.endsWith(".json")),
    "project.inlang/settings.json",
    "scripts/messages.mjs",
    "package-lock.json",
  ];
  const hash = createHash("sha256").update(String(isPseudo));
  for (const path of files) hash.update(`\0${path}\0`).update(readFileSync(join(ROOT, path)));
  return hash.digest("hex");
}

const isPseudo = process.argv.includes("--pseudo");
const outdir = join(ROOT, ".messages");
const stamp = join(outdir, "compiled-from.txt");
const expected = digest();
if (!existsSync(stamp) || readFileSync(stamp, "utf8") !== expected) {
  rmSync(stamp, { force: true });
  const project = isPseudo ? pseudoProject() : join(ROOT, "project.inlang");
  await compile({
    project,
    outdir,
    strategy: ["globalVariable", "baseLocale"],
    emitReadme: false,
    emitPrettierIgnore: false,
  });
  // A language without plural forms leaves locals unused, which the type check would report; the
  // types of inputs stay.
  for (const file of readdirSync(join(outdir, "messages")).filter((name) => name.endsWith(".js"))) {
    const path = join(outdir, "messages", file);
    writeFileSync(path, `// @ts-nocheck\n${readFileSync(path, "utf8")}`);
  }
  writeFileSync(stamp, expected);
}
