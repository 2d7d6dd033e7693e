// Recognizes addresses of models that the user types, pastes or drops.

const HUB = /^(?:https?:\/\/)?(?:www\.)?(?:hf\.co|huggingface\.co)\/(?=\S)/i;
const OLLAMA = /^ollama:\/\/\S+$/i;
const ADDRESS = /^https?:\/\/\S+$/i;
/** First path segments of pages of the hub that are no repositories. */
const PAGES = /^(?:api|blog|chat|collections|datasets|docs|models|papers|settings|spaces|tasks)$/i;
/** Maximum length of a text that is parsed as an address. */
const MAX_LEN = 2000;

/** Parses a text as an argument of `startDownload`; `null` if it is a search query. */
export function asSource(text: string): string | null {
  const clean = text.trim();
  if (clean.length > MAX_LEN || /\s/.test(clean)) return null;
  return HUB.test(clean) || OLLAMA.test(clean) || ADDRESS.test(clean) ? clean : null;
}

/** The first address of a model in dropped text, which may be a list of addresses or prose. */
export function droppedSource(text: string): string | null {
  const words = text.slice(0, 10 * MAX_LEN).split(/\s+/);
  return (
    words.find(
      (word) => asSource(word) !== null && (HUB.test(word) || OLLAMA.test(word) || /\.gguf(?:[?#]|$)/i.test(word)),
    ) ?? null
  );
}

/** The repository `owner/name` of an address of the hub; `null` for other addresses. */
export function repositoryOf(source: string): string | null {
  if (!HUB.test(source)) return null;
  const path = source.replace(HUB, "").split(/[?#]/)[0] ?? "";
  const [owner, name] = path.split("/");
  const clean = name?.replace(/:.*$/, "");
  return owner && clean && !PAGES.test(owner) ? `${owner}/${clean}` : null;
}

/** The last part of a path. */
export function fileName(path: string): string {
  return (
    path
      .split(/[/\\]/)
      .filter((part) => part !== "")
      .at(-1) ?? path
  );
}
