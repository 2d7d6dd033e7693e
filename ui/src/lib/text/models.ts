// Texts on models and downloads: sources, sort orders, expected speed, removal and progress.

import { m } from "$messages";
import type { Download, Expectation, HubSort, Model, Source } from "../host";
import { count, duration, fileSize, percent, scaled, speed } from "./format";

const sourceLabels: Record<Source, () => string> = {
  bundled: m.text_model_source_bundled,
  catalog: m.text_model_source_catalog,
  file: m.text_model_source_file,
  folder: m.text_model_source_folder,
  huggingFace: m.text_model_source_hugging_face,
  lmStudio: () => "LM Studio", // not text: a name
  ollama: () => "Ollama", // not text: a name
  jan: () => "Jan", // not text: a name
  llamaCpp: () => "llama.cpp",
};

/** The origin of a model's file: `Added folder`, `Ollama`. */
export function sourceLabel(source: Source): string {
  return sourceLabels[source]();
}

const hubSortLabels: Record<HubSort, () => string> = {
  trending: m.text_model_sort_trending,
  downloads: m.text_model_sort_downloads,
  likes: m.text_model_sort_likes,
  updated: m.text_model_sort_updated,
};

/** Sort orders of a search of the hub, in the order of their menu. */
export const hubSorts: readonly HubSort[] = Object.keys(hubSortLabels) as HubSort[];

/** The name of a sort order: `Most downloads`. */
export function hubSortLabel(sort: HubSort): string {
  return hubSortLabels[sort]();
}

/** The effect of a model's removal, for the confirmation: the file is deleted, or stays. */
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

/** The expected decode speed: `about 30 tokens/s`. `null` if the model does not fit. */
export function expectedSpeed({ tokensPerSecond }: Pick<Expectation, "tokensPerSecond">): string | null {
  if (tokensPerSecond === null || !(tokensPerSecond > 0)) return null;
  return m.text_model_about_speed({ speed: speed(Number(tokensPerSecond.toPrecision(2))) });
}

/**
 * Whether all models are the bundled one or of its kind and size, as is one that was made from it.
 */
export function areBundled(models: readonly Model[]): boolean {
  const bundled = models.filter(({ source }) => source === "bundled");
  return models.every(({ architecture, parameters }) =>
    bundled.some((model) => model.architecture === architecture && model.parameters === parameters),
  );
}

/** Whether a model fits on this machine, perhaps with less context or slowly. */
export function fitsHere(expectation: Expectation | null): boolean {
  return expectation !== null && expectation.verdict.type !== "wontFit";
}

/** Whether a text has all words of a query, in any case and order. */
export function hasWords(text: string, query: string): boolean {
  const lower = text.toLowerCase();
  return query
    .toLowerCase()
    .split(/\s+/)
    .every((word) => lower.includes(word));
}

/** Whether a download is queued, running, being checked, or waits for its next attempt. */
export function isActive({ state }: Download): boolean {
  return ["queued", "running", "checking", "waiting"].includes(state.type);
}

/** The downloaded fraction, from 0 to 1. `null` if the size is not known yet. */
export function downloadedFraction({ done, total }: Download): number | null {
  return total === null || total <= 0 ? null : Math.min(1, done / total);
}

/**
 * The progress of a download: `1.2 GB of 2.4 GB, 12 MB/s, 1 min 40 s left`, or the reason for which
 * it does not continue.
 */
export function progressText(download: Download, now = Date.now()): string {
  const { done, total, bytesPerSecond, state } = download;
  const isUnstarted = total === null && done === 0;
  // The downloaded part, as long as the size of the file is not known.
  const wholeSize = fileSize(total ?? done);
  const size = total === null ? wholeSize : m.text_download_of({ done: fileSize(done), total: wholeSize });
  switch (state.type) {
    case "queued":
      if (isUnstarted) return m.text_download_queued();
      return m.text_download_queued_size({ size: done > 0 ? size : wholeSize });
    case "running":
      if (isUnstarted) return m.text_download_asking();
      if (!(bytesPerSecond > 0)) return m.text_download_server({ size });
      if (total === null) return m.text_download_running({ size, speed: fileSize(bytesPerSecond) });
      return m.text_download_running_left({
        size,
        speed: fileSize(bytesPerSecond),
        time: duration((total - done) / bytesPerSecond),
      });
    case "checking":
      return m.text_download_checking_file({ size: wholeSize });
    case "waiting": {
      const time = duration((state.retryAt - now) / 1000);
      return isUnstarted ? m.text_download_next_unstarted({ time }) : m.text_download_next({ size, time });
    }
    case "paused":
      return m.text_download_paused({ size });
    case "failed":
      return isUnstarted ? m.text_download_not_started() : m.text_download_stopped({ size });
    case "done":
      if (state.adapter !== null) return m.text_download_done_adapter({ size: wholeSize });
      if (state.model === null) return m.text_download_done_other({ size: wholeSize });
      return m.text_download_done({ size: wholeSize });
  }
}

/** The progress of a download in a word or a number: `43 %`, `Waiting`. */
export function shortProgress(download: Download): string {
  const fraction = downloadedFraction(download);
  switch (download.state.type) {
    case "queued":
    case "waiting":
      return m.text_download_waiting();
    case "checking":
      return m.text_download_checking();
    default:
      return fraction === null ? m.text_download_starting() : percent(fraction);
  }
}

/** A count with at most three digits: `412`, `413k`, `1.2M`. */
export function compactCount(n: number): string {
  return n < 1000 ? count(n) : scaled(n).replace(" ", "");
}
