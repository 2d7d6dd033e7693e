// The dialogs of folders, tags and saved prompts, which lists, menus and the command palette open.

import type { SavedPrompt } from "../host";

export type OrganizingDialog =
  | { for: "move"; conversation: number }
  | { for: "tags"; conversation: number }
  | { for: "folder"; folder: number }
  /** The saved prompts; `fresh` is the text of a new prompt. */
  | { for: "prompts"; fresh?: string }
  /** Values for the variables of a prompt. */
  | { for: "variables"; prompt: SavedPrompt };
