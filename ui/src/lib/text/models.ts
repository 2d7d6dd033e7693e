// Labels of getting models: where one comes from, what it would be like here, and how far a download is.

import type { Download, Expectation, HubSort, Model, Source } from "../host";
import { count, duration, fileSize, percent, scaled, speed } from "./format";

const sources: Record<Source, string> = {
  bundled: "Comes with Hearth",
  catalog: "Downloaded",
  file: "Added file",
  folder: "Added folder",
  huggingFace: "Hugging Face cache",
  lmStudio: "LM Studio",
  ollama: "Ollama",
  jan: "Jan",
  llamaCpp: "llama.cpp",
};

export function sourceLabel(source: Source): string {
  return sources[source];
}

export const sorts: readonly { value: HubSort; label: string }[] = [
  { value: "trending", label: "Trending" },
  { value: "downloads", label: "Most downloads" },
  { value: "likes", label: "Most likes" },
  { value: "updated", label: "Recently updated" },
];

/** What removing a model does, for its confirmation. */
export function removalText({ source, isDeletable, fileSize: bytes }: Model): string {
  if (isDeletable) return `Deletes the file, ${fileSize(bytes)}. It can be downloaded again.`;
  switch (source) {
    case "huggingFace":
      return "Removes it from the list; the file stays, as other programs use the Hugging Face cache too.";
    case "lmStudio":
    case "ollama":
    case "jan":
    case "llamaCpp":
      return `Removes it from the list; the file stays, as it belongs to ${sourceLabel(source)}.`;
    default:
      return "Removes it from the list; the file stays where it is.";
  }
}

/** `about 30 tokens/s`; `null` if it does not fit. */
export function expectedSpeed({ tokensPerSecond }: Expectation): string | null {
  if (tokensPerSecond === null || !(tokensPerSecond > 0)) return null;
  return `about ${speed(Number(tokensPerSecond.toPrecision(2)))}`;
}

/** Whether a model fits on this machine, if only with less context or slowly. */
export function fitsHere(expectation: Expectation | null): boolean {
  return expectation !== null && expectation.verdict.type !== "wontFit";
}

/** Whether a download is waiting, in progress or being checked. */
export function isUnderWay({ state }: Download): boolean {
  return state.type === "queued" || state.type === "running" || state.type === "checking";
}

/** From 0 to 1; `null` if the total is not known yet. */
export function fractionOf({ done, total }: Download): number | null {
  return total === null || total <= 0 ? null : Math.min(1, done / total);
}

/** `1.2 of 2.4 GB, 12 MB/s, 1 min 40 s left`, and why it does not go on. */
export function progressText(download: Download): string {
  const { done, total, bytesPerSecond, state } = download;
  const of = total === null ? fileSize(done) : `${fileSize(done)} of ${fileSize(total)}`;
  switch (state.type) {
    case "queued":
      return done > 0 ? `${of}, waiting for other downloads` : total === null ? "Waiting for other downloads" : `${fileSize(total)}, waiting for other downloads`;
    case "running":
      if (total === null && done === 0) return "Asking for its size";
      if (!(bytesPerSecond > 0)) return `${of}, waiting for the server`;
      return [of, `${fileSize(bytesPerSecond)}/s`, ...(total === null ? [] : [`${duration((total - done) / bytesPerSecond)} left`])].join(", ");
    case "checking":
      return `${fileSize(total ?? done)}, checking the file`;
    case "paused":
      return `${of}, paused`;
    case "failed":
      return total === null && done === 0 ? "Not started" : `${of}, stopped`;
    case "done":
      return state.model === null ? `${fileSize(total ?? done)}, no chat model` : `${fileSize(total ?? done)}, on this machine`;
  }
}

/** A download in a word or two: `43 %`, `Waiting`. */
export function shortProgress(download: Download): string {
  const fraction = fractionOf(download);
  switch (download.state.type) {
    case "queued":
      return "Waiting";
    case "checking":
      return "Checking";
    default:
      return fraction === null ? "Starting" : percent(fraction);
  }
}

/** `413k`, `1.2M` */
export function compact(n: number): string {
  return n < 1000 ? count(n) : scaled(n).replace(" ", "");
}
