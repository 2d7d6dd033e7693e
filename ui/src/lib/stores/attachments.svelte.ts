// Owns the files of unsent messages, by conversation. They are read when they are added. The app
// saves them.

import { m } from "$messages";
import type { Host, TextFile } from "../host";
import { SvelteMap } from "svelte/reactivity";
import type { UnsentSaver } from "./unsent";

/** Maximum number of files per message and bytes per file. The app has the same limits. */
const MAX_FILES = 50;
const MAX_BYTES = 4 << 20;

export class Attachments {
  private readonly files = new SvelteMap<number | null, TextFile[]>();

  constructor(
    private readonly host: Host,
    private readonly saver: UnsentSaver,
  ) {}

  get(conversation: number | null): TextFile[] {
    return this.files.get(conversation) ?? [];
  }

  /** Throws if a message would have too many files. */
  check(files: readonly TextFile[]): void {
    if (files.length > MAX_FILES)
      throw { code: "badRequest", message: m.store_too_many_files({ most: MAX_FILES, n: files.length }) };
  }

  set(conversation: number | null, files: TextFile[]): void {
    this.check(files);
    this.put(conversation, files);
  }

  /** Sets files that were checked before. */
  put(conversation: number | null, files: TextFile[]): void {
    this.fill(conversation, files);
    this.saver.change(conversation, { files });
  }

  /** Restores the files that the app has saved. */
  fill(conversation: number | null, files: TextFile[]): void {
    if (files.length === 0) this.files.delete(conversation);
    else this.files.set(conversation, files);
  }

  remove(conversation: number | null, at: number): void {
    this.set(
      conversation,
      this.get(conversation).filter((_, i) => i !== at),
    );
  }

  /** Opens a dialog for files and adds them. */
  async choose(conversation: number | null): Promise<void> {
    await this.addPaths(conversation, await this.host.chooseTextFiles(m.chat_attach()));
  }

  /** Reads files on this machine and adds them. If one cannot be read, the files before it stay. */
  async addPaths(conversation: number | null, paths: string[]): Promise<void> {
    for (const path of paths) {
      const file = await this.host.readTextFile(path);
      this.set(conversation, [...this.get(conversation), file]);
    }
  }

  /**
   * Adds a text as a file whose name no other file of the message has. Returns `null` if the limits
   * do not allow it.
   */
  addText(conversation: number | null, text: string): TextFile | null {
    const files = this.get(conversation);
    const isTooLarge = text.length > MAX_BYTES || new Blob([text]).size > MAX_BYTES;
    if (files.length >= MAX_FILES || isTooLarge || text.includes("\0")) return null;
    const file = { name: newName(files), text };
    this.set(conversation, [...files, file]);
    return file;
  }

  /** The conversation whose unsent message has a file; `null` if none has it. */
  homeOf(file: TextFile): { conversation: number | null } | null {
    for (const [conversation, files] of this.files) if (files.includes(file)) return { conversation };
    return null;
  }

  /** Removes a file from its message, and returns the conversation; `null` if none has the file. */
  take(file: TextFile): { conversation: number | null } | null {
    const home = this.homeOf(file);
    if (home) this.remove(home.conversation, this.get(home.conversation).indexOf(file));
    return home;
  }

  /** Adds pasted files. */
  async addPasted(conversation: number | null, pasted: File[]): Promise<void> {
    for (const file of pasted) {
      const text = file.size > MAX_BYTES ? null : decoded(await file.arrayBuffer());
      if (text === null) throw { code: "dataInvalid", message: m.store_file_not_text({ name: file.name }) };
      this.set(conversation, [...this.get(conversation), { name: file.name, text }]);
    }
  }
}

/** A name for a pasted text that none of the files has. */
function newName(files: readonly TextFile[]): string {
  const names = new Set(files.map(({ name }) => name));
  for (let n = 1; ; n++) {
    const name = `${n === 1 ? m.store_pasted_text() : m.store_pasted_text_number({ n })}.txt`;
    if (!names.has(name)) return name;
  }
}

/** Decodes UTF-8; `null` if the bytes are not valid UTF-8. */
function decoded(bytes: ArrayBuffer): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\0") ? null : text;
  } catch {
    return null;
  }
}
