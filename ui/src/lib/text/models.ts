// Labels of models and downloads: source, expected speed, and progress.

import { m } from "$messages";
import type { Download, Expectation, HubSort, Model, Source } from "../host";
import { count, duration, fileSize, percent, scaled, speed } from "./format";

const sources: Record<Source, () => string> = {
  bundled: m.text_model_source_bundled,
  catalog: m.text_model_source_catalog,
  file: m.text_model_source_file,
  folder: m.text_model_source_folder,
  huggingFace: m.text_model_source_hugging_face,
  lmStudio: () => "LM Studio", // not text: a name, like those that follow
  ollama: () => "Ollama", // not text: a name
  jan: () => "Jan", // not text: a name
  llamaCpp: () => "llama.cpp",
};

export function sourceLabel(source: Source): string {
  return sources[source]();
}

export const sorts: readonly { value: HubSort; readonly label: string }[] = [
  {
    value: "trending",
    get label() {
      return m.text_model_sort_trending();
    },
  },
  {
    value: "downloads",
    get label() {
      return m.text_model_sort_downloads();
    },
  },
  {
    value: "likes",
    get label() {
      return m.text_model_sort_likes();
    },
  },
  {
    value: "updated",
    get label() {
      return m.text_model_sort_updated();
    },
  },
];

/** The effect of removing a model, for the confirmation. */
export function removalText({ source, isDeletable, fileSize: bytes }: Model): string {
  if (isDeletable) return m.text_model_removal_deletes({ size: fileSize(bytes) });
  switch (source) {
    case "huggingFace":
      return m.text_model_removal_hugging_face();
    case "lmStudio":
    case "ollama":
    case "jan":
    case "llamaCpp":
      return m.text_model_removal_program({ program: sourceLabel(source) });
    default:
      return m.text_model_removal_listed();
  }
}

/** `about 30 tokens/s`; `null` if it does not fit. */
export function expectedSpeed({ tokensPerSecond }: Expectation): string | null {
  if (tokensPerSecond === null || !(tokensPerSecond > 0)) return null;
  return m.text_model_about_speed({ speed: speed(Number(tokensPerSecond.toPrecision(2))) });
}

/** Whether a model fits on this machine, perhaps with less context or slowly. */
export function fitsHere(expectation: Expectation | null): boolean {
  return expectation !== null && expectation.verdict.type !== "wontFit";
}

/** Whether a download is waiting, in progress or being checked. */
export function isUnderWay({ state }: Download): boolean {
  return state.type === "queued" || state.type === "running" || state.type === "checking";
}

/** Progress from 0 to 1; `null` if the total is not known yet. */
export function fractionOf({ done, total }: Download): number | null {
  return total === null || total <= 0 ? null : Math.min(1, done / total);
}

/**
 * `1.2 of 2.4 GB, 12 MB/s, 1 min 40 s left`, or the reason for which the download does not
 * continue.
 */
export function progressText(download: Download): string {
  const { done, total, bytesPerSecond, state } = download;
  /** Of the whole file, or of what there is. */
  const all = fileSize(total ?? done);
  const size = total === null ? all : m.text_download_of({ done: fileSize(done), total: all });
  switch (state.type) {
    case "queued":
      if (total === null && done === 0) return m.text_download_queued();
      return m.text_download_queued_size({ size: done > 0 ? size : all });
    case "running":
      if (total === null && done === 0) return m.text_download_asking();
      if (!(bytesPerSecond > 0)) return m.text_download_server({ size });
      if (total === null) return m.text_download_running({ size, speed: fileSize(bytesPerSecond) });
      return m.text_download_running_left({
        size,
        speed: fileSize(bytesPerSecond),
        time: duration((total - done) / bytesPerSecond),
      });
    case "checking":
      return m.text_download_checking_file({ size: all });
    case "paused":
      return m.text_download_paused({ size });
    case "failed":
      return total === null && done === 0 ? m.text_download_not_started() : m.text_download_stopped({ size });
    case "done":
      if (state.adapter !== null) return m.text_download_done_adapter({ size: all });
      return state.model === null ? m.text_download_done_other({ size: all }) : m.text_download_done({ size: all });
  }
}

/** A download in a word or two: `43 %`, `Waiting`. */
export function shortProgress(download: Download): string {
  const fraction = fractionOf(download);
  switch (download.state.type) {
    case "queued":
      return m.text_download_waiting();
    case "checking":
      return m.text_download_checking();
    default:
      return fraction === null ? m.text_download_starting() : percent(fraction);
  }
}

/** `413k`, `1.2M` */
export function compact(n: number): string {
  return n < 1000 ? count(n) : scaled(n).replace(" ", "");
}
