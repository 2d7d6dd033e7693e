// Sentences about imports, exports and backups.

import type { ChatFormat, ExportedChats, ImportFormat, ImportReport, PendingRestore, SkipReason, WrittenBackup } from "../host";
import { count, fileSize, moment, plural } from "./format";

const formats: Record<ImportFormat, string> = {
  hearth: "Hearth",
  chatGpt: "ChatGPT",
  claude: "Claude",
  lmStudio: "LM Studio",
  jan: "Jan",
  openWebUi: "Open WebUI",
  llamaCpp: "llama.cpp",
  shareGpt: "ShareGPT",
  openAi: "OpenAI messages",
};

/** After a number: `2 are empty`. */
const reasons: Record<SkipReason, [one: string, many: string]> = {
  empty: ["is empty", "are empty"],
  malformed: ["cannot be read", "cannot be read"],
  tooLarge: ["is larger than 256 MB", "are larger than 256 MB"],
  tooManyMessages: ["has more than 200,000 messages", "have more than 200,000 messages"],
  unknownFormat: ["is in an unknown format", "are in an unknown format"],
  unreadable: ["is encrypted or compressed in an unknown way", "are encrypted or compressed in an unknown way"],
};

export const chatFormats: { value: ChatFormat; label: string; hint: string }[] = [
  { value: "markdown", label: "Markdown", hint: "The selected branch of each conversation, to read and edit anywhere." },
  { value: "html", label: "HTML", hint: "One page for any browser, with the selected branch of each conversation." },
  { value: "json", label: "JSON", hint: "Every branch, rating and part. Hearth can import it again." },
];

/** What an import did, a sentence each. */
export function importSentences(report: ImportReport): string[] {
  const from = report.formats.length > 0 ? ` from ${report.formats.map((format) => formats[format]).join(" and ")}` : "";
  const sentences = [`${report.imported === 0 ? "No new conversations were" : `${plural(report.imported, "conversation was", "conversations were")}`} imported${from}.`];
  if (report.extended > 0) sentences.push(`${plural(report.extended, "conversation that was imported before has", "conversations that were imported before have")} new messages.`);
  if (report.known > 0) sentences.push(`${plural(report.known, "conversation was", "conversations were")} imported before.`);
  if (report.skipped.length > 0) sentences.push(skippedSentence(report));
  return sentences;
}

function skippedSentence({ skipped, found }: ImportReport): string {
  const total = skipped.reduce((sum, one) => sum + one.count, 0);
  const why = skipped.map(({ reason, count: n, example }) => `${count(n)} ${reasons[reason][n === 1 ? 0 : 1]}${example === null ? "" : ` (“${example}”)`}`);
  return `${count(total)} of ${plural(found, "conversation")} ${total === 1 ? "was" : "were"} skipped: ${why.join(", ")}.`;
}

export function exportSentence({ conversations, bytes, path }: ExportedChats): string {
  return `${plural(conversations, "conversation was", "conversations were")} written to ${path} (${fileSize(bytes)}).`;
}

export function backupSentence({ path, bytes, files }: WrittenBackup): string {
  return `${plural(files, "file was", "files were")} backed up to ${path} (${fileSize(bytes)}).`;
}

/** What the next start does. */
export function restoreSentence({ madeAt, conversations, aside }: PendingRestore, now: number): string {
  return `The backup of ${moment(madeAt, now)} with ${plural(conversations, "conversation")} is checked. It is put in place when Hearth starts the next time: close Hearth and open it again. What is here now, and what you write until then, is moved to ${aside}.`;
}
