// Sentences of problems. Texts of libraries and of the system are English; other languages put a
// headline before them.

import { m } from "$messages";
import type { Problem } from "../host";
import { language } from "./language.svelte";
import { sentence } from "./sentence";

/** Headlines of the codes of `ProblemCode` in `crates/protocol/src/problem/mod.rs`. */
const headlines: Record<string, () => string> = {
  fileUnreadable: m.text_problem_file_unreadable,
  fileInvalid: m.text_problem_file_invalid,
  unsupported: m.text_problem_unsupported,
  outOfMemory: m.text_problem_out_of_memory,
  dataInvalid: m.text_problem_data_invalid,
  adapterInvalid: m.text_problem_adapter_invalid,
  isAdapter: m.text_problem_is_adapter,
  draftInvalid: m.text_problem_draft_invalid,
  diverged: m.text_problem_diverged,
  diskFull: m.text_problem_disk_full,
  template: m.text_problem_template,
  promptTooLong: m.text_problem_prompt_too_long,
  noModel: m.text_problem_no_model,
  cancelled: m.text_problem_cancelled,
  superseded: m.text_problem_superseded,
  gpuFailed: m.text_problem_gpu_failed,
  busy: m.text_problem_busy,
  noDevice: m.text_problem_no_device,
  badRequest: m.text_problem_bad_request,
  workerDied: m.text_problem_worker_died,
  updated: m.text_problem_updated,
  notFound: m.text_problem_not_found,
  store: m.text_problem_store,
  storeCorrupt: m.text_problem_store_corrupt,
  storeNewer: m.text_problem_store_newer,
  alreadyRunning: m.text_problem_already_running,
  download: m.text_problem_download,
  keychain: m.text_problem_keychain,
  internal: m.text_problem_internal,
};

/**
 * The sentence of a problem. For the text of a library: `Die Datei konnte nicht gelesen werden.
 * (…)`; in English, and with an unknown code, the text alone.
 */
export function problemText({ code, reason }: Problem): string {
  if (reason.area !== "detail") return sentence("problem", reason);
  const headline = headlines[code];
  return language.locale === "en" || headline === undefined
    ? reason.detail
    : m.text_problem({ headline: headline(), detail: reason.detail });
}
