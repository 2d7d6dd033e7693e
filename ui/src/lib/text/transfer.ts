// Sentences about imports, exports and backups.

import { m } from "$messages";
import type {
  ChatFormat,
  DeletedFormer,
  ExportedChats,
  ImportFormat,
  ImportReport,
  PendingRestore,
  SkippedFileReason,
  SkippedFiles,
  SkipReason,
  WrittenBackup,
} from "../host";
import { count as number, fileSize, list, listWithAnd, moment } from "./format";

const formats: Record<ImportFormat, () => string> = {
  hearth: () => "Hearth", // not text: a name, like those that follow
  chatGpt: () => "ChatGPT",
  claude: () => "Claude", // not text: a name
  lmStudio: () => "LM Studio", // not text: a name
  jan: () => "Jan", // not text: a name
  openWebUi: () => "Open WebUI", // not text: a name
  llamaCpp: () => "llama.cpp",
  shareGpt: () => "ShareGPT",
  openAi: m.text_transfer_openai,
};

/** `2 are empty` */
const reasons: Record<SkipReason, (inputs: { count: number; limit: string }) => string> = {
  empty: m.text_transfer_skip_empty,
  malformed: m.text_transfer_skip_malformed,
  tooLarge: m.text_transfer_skip_too_large,
  tooManyMessages: m.text_transfer_skip_too_many_messages,
  tooManyValues: m.text_transfer_skip_too_many_values,
  unknownFormat: m.text_transfer_skip_unknown_format,
  unreadable: m.text_transfer_skip_unreadable,
};

/** `2 have names that cannot be used` */
const skippedFileReasons: Record<SkippedFileReason, (inputs: { count: number }) => string> = {
  name: m.text_transfer_left_out_name,
  tooDeep: m.text_transfer_left_out_too_deep,
  notAFile: m.text_transfer_left_out_not_a_file,
  notAPreset: m.text_transfer_left_out_not_a_preset,
  unreadable: m.text_transfer_left_out_unreadable,
};

export const chatFormats: readonly { value: ChatFormat; label: string; readonly hint: string }[] = [
  {
    value: "markdown",
    label: "Markdown", // not text: a name
    get hint() {
      return m.text_transfer_markdown_hint();
    },
  },
  {
    value: "html",
    label: "HTML",
    get hint() {
      return m.text_transfer_html_hint();
    },
  },
  {
    value: "json",
    label: "JSON",
    get hint() {
      return m.text_transfer_json_hint();
    },
  },
];

/** The results of an import, one sentence each. */
export function importSentences(report: ImportReport): string[] {
  const sentences = [importedSentence(report)];
  if (report.extended > 0) sentences.push(m.text_transfer_extended({ count: report.extended }));
  if (report.known > 0) sentences.push(m.text_transfer_known({ count: report.known }));
  if (report.skipped.length > 0) sentences.push(skippedSentence(report));
  return sentences;
}

function importedSentence(report: ImportReport): string {
  const { imported } = report;
  if (report.formats.length === 0)
    return imported === 0 ? m.text_transfer_imported_none() : m.text_transfer_imported({ count: imported });
  const programs = listWithAnd(report.formats.map((format) => formats[format]()));
  return imported === 0
    ? m.text_transfer_imported_none_from({ programs })
    : m.text_transfer_imported_from({ count: imported, programs });
}

function skippedSentence({ skipped, found }: ImportReport): string {
  const total = skipped.reduce((sum, { count }) => sum + count, 0);
  const texts = skipped.map(({ reason, limit, count, example }) => {
    const limitText = reason === "tooLarge" ? fileSize(limit ?? 0) : number(limit ?? 0);
    const text = reasons[reason]({ count, limit: limitText });
    return example === null ? text : m.text_transfer_skip_example({ reason: text, example });
  });
  return m.text_transfer_skipped({ skipped: total, found, reasons: list(texts) });
}

export function exportSentence({ conversations, bytes, path }: ExportedChats): string {
  return m.text_transfer_exported({ count: conversations, path, size: fileSize(bytes) });
}

/** The contents of a backup, and the files that it skipped. */
export function backupSentences({ path, bytes, files, skipped }: WrittenBackup): string[] {
  const written = m.text_transfer_backed_up({ count: files, path, size: fileSize(bytes) });
  return skipped.length === 0 ? [written] : [written, m.text_transfer_left_out(skippedFileInputs(skipped))];
}

/** The effect of a pending restoration at the next start. */
export function restoreSentences({ madeAt, conversations, aside, skipped }: PendingRestore, now: number): string[] {
  const restored = m.text_transfer_restore({ time: moment(madeAt, now), count: conversations, folder: aside });
  return skipped.length === 0 ? [restored] : [restored, m.text_transfer_not_restored(skippedFileInputs(skipped))];
}

function skippedFileInputs(skipped: readonly SkippedFiles[]): { count: number; reasons: string } {
  const total = skipped.reduce((sum, { count }) => sum + count, 0);
  const texts = skipped.map(({ reason, count, example }) =>
    m.text_transfer_skip_example({ reason: skippedFileReasons[reason]({ count }), example }),
  );
  return { count: total, reasons: list(texts) };
}

/** The files that stay in the former data folder; `null` if none of them is Hearth's. */
export function formerSentence({ left, example }: DeletedFormer): string | null {
  return left === 0 ? null : m.text_transfer_former_left({ count: left, example: example ?? "" });
}
