// Folders, tags, saved prompts and text files of the fake host.

import type { Conversation, Folder, Part, SavedPrompt, SearchFilter, TextFile } from "../host";
import { defaultChatSettings } from "../host";
import { FakePresets } from "./presets";
import { problem } from "./problems";

interface Place {
  folder: number | null;
  tags: string[];
}

export abstract class FakeOrganizing extends FakePresets {
  folders: Folder[] = [];
  prompts: SavedPrompt[] = [];
  private readonly deletedFolders = new Map<number, Folder>();
  private readonly places = new Map<number, Place>();
  private lastId = 0;

  /** The scene `organized`: two folders, tags and saved prompts. */
  protected fillOrganized(): void {
    const sampling = { ...defaultChatSettings.sampling, temperature: 0.3 };
    this.folders = [
      {
        id: 901,
        name: "Rust",
        systemPrompt: "Answer for a person who knows C++, in few words, with code.",
        settings: { ...defaultChatSettings, sampling },
      },
      { id: 902, name: "Home and kitchen", systemPrompt: null, settings: defaultChatSettings },
    ];
    this.put(1, { folder: 901, tags: ["ownership"] });
    this.put(3, { folder: 902, tags: ["letters"] });
    this.put(4, { folder: 902, tags: ["baking", "sourdough"] });
    this.put(6, { tags: ["databases", "work"] });
    this.prompts = [
      { id: 911, name: "code-review", text: "Review this {{language}} code for mistakes. Be {{tone}}.\n\n" },
      { id: 912, name: "shorten", text: "Make this shorter, without losing a fact:\n\n" },
      { id: 913, name: "summary", text: "Summarize in three sentences:\n\n" },
    ];
  }

  /** Emits all conversations. */
  protected abstract emitConversations(): Promise<void>;

  /** Folder and tags of a conversation. */
  protected placeOf(conversation: number): Place {
    const { folder, tags } = this.places.get(conversation) ?? { folder: null, tags: [] };
    return { folder: this.folders.some(({ id }) => id === folder) ? folder : null, tags };
  }

  protected put(conversation: number, change: Partial<Place>): void {
    this.places.set(conversation, { ...this.placeOf(conversation), ...change });
  }

  protected isWithin({ id, updatedAt }: Conversation, { folder, tag, since, until }: SearchFilter): boolean {
    const place = this.placeOf(id);
    return (
      (folder ?? place.folder) === place.folder &&
      (tag === null || place.tags.includes(tag)) &&
      (since ?? updatedAt) <= updatedAt &&
      (until ?? updatedAt) >= updatedAt
    );
  }

  async createFolder(name: string): Promise<Folder> {
    if (name.trim() === "") throw problem("badRequest", { area: "chat", type: "emptyName" });
    const folder: Folder = { id: ++this.lastId, name: name.trim(), systemPrompt: null, settings: defaultChatSettings };
    this.folders = [...this.folders, folder];
    this.emit({ type: "foldersChanged", folders: this.folders });
    return folder;
  }

  async updateFolder(folder: Folder): Promise<void> {
    this.folders = this.folders.map((current) => (current.id === folder.id ? folder : current));
    this.emit({ type: "foldersChanged", folders: this.folders });
  }

  async deleteFolder(id: number): Promise<void> {
    const folder = this.folders.find((candidate) => candidate.id === id);
    if (folder) this.deletedFolders.set(id, folder);
    this.folders = this.folders.filter((candidate) => candidate.id !== id);
    this.emit({ type: "foldersChanged", folders: this.folders });
    await this.emitConversations();
  }

  async restoreFolder(id: number): Promise<void> {
    const folder = this.deletedFolders.get(id);
    if (folder) this.folders = [...this.folders, folder].sort((a, b) => a.id - b.id);
    this.emit({ type: "foldersChanged", folders: this.folders });
    await this.emitConversations();
  }

  async savedPrompts(): Promise<SavedPrompt[]> {
    return this.prompts;
  }

  async savePrompt(id: number | null, name: string, text: string): Promise<SavedPrompt> {
    if (!/^[\p{L}\p{N}_-]{1,40}$/u.test(name))
      throw problem("badRequest", { area: "chat", type: "promptName", limit: 40 });
    if (text.trim() === "") throw problem("badRequest", { area: "chat", type: "promptText", limit: 262_144 });
    if (this.prompts.some((other) => other.id !== id && other.name.toLowerCase() === name.toLowerCase()))
      throw problem("badRequest", { area: "chat", type: "promptNameTaken", name });
    const prompt = { id: id ?? ++this.lastId, name, text };
    this.prompts = [...this.prompts.filter((other) => other.id !== prompt.id), prompt].sort((a, b) =>
      a.name.localeCompare(b.name),
    );
    this.emit({ type: "promptsChanged", prompts: this.prompts });
    return prompt;
  }

  async deletePrompt(id: number): Promise<void> {
    this.prompts = this.prompts.filter((prompt) => prompt.id !== id);
    this.emit({ type: "promptsChanged", prompts: this.prompts });
  }

  async chooseTextFiles(): Promise<string[]> {
    return ["/home/you/project/main.rs", "/home/you/project/README.md"];
  }

  async readTextFile(path: string): Promise<TextFile> {
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (/photo|\.bin$/.test(name)) throw problem("dataInvalid", { area: "data", type: "textBinary", name });
    return { name, text: `// ${name}\nfn main() {\n    println!("Hello");\n}\n` };
  }
}

/** Files as parts of a message. */
export function asParts(files: TextFile[]): Part[] {
  return files.map(({ name, text }) => ({ type: "file", name, mediaType: "text/plain", text }));
}

/** Tags as the app has them: clean, and each once. */
export function checkedTags(tags: readonly string[]): string[] {
  const clean = new Map<string, string>();
  for (const tag of tags) {
    const text = tag.replace(/^#+/, "").trim().replace(/\s+/g, " ");
    if (text.length > 40) throw problem("badRequest", { area: "chat", type: "tagTooLong", limit: 40 });
    if (text !== "" && !clean.has(text.toLowerCase())) clean.set(text.toLowerCase(), text);
  }
  return [...clean.values()].sort();
}
