// Actions on folders, tags, the filter of the search and saved prompts.

import { m } from "$messages";
import type { App } from "../stores/app.svelte";
import type { Row } from "./action";

const isOpen = (app: App): boolean => app.thread.id !== null;

export const organizingActions: readonly Row[] = [
  {
    id: "new-folder",
    title: m.action_new_folder,
    group: "chat",
    icon: "folderAdd",
    words: m.action_new_folder_words,
    run: (app) => app.nameFolder(),
  },
  {
    id: "move-conversation",
    title: m.action_move_conversation,
    group: "chat",
    icon: "folder",
    words: m.action_move_conversation_words,
    enabled: isOpen,
    run: (app) => app.thread.id !== null && (app.dialog = { for: "move", conversation: app.thread.id }),
  },
  {
    id: "folder-settings",
    title: m.action_folder_settings,
    group: "chat",
    icon: "folder",
    words: m.action_folder_settings_words,
    enabled: (app) => app.folder !== null,
    run: (app) => app.folder && (app.dialog = { for: "folder", folder: app.folder.id }),
  },
  {
    id: "edit-tags",
    title: m.action_edit_tags,
    group: "chat",
    icon: "tag",
    words: m.action_edit_tags_words,
    enabled: isOpen,
    run: (app) => app.thread.id !== null && (app.dialog = { for: "tags", conversation: app.thread.id }),
  },
  {
    id: "filter-conversations",
    title: m.action_filter_conversations,
    group: "chat",
    icon: "filter",
    words: m.action_filter_conversations_words,
    run: (app) => {
      app.search.filtersOpen = true;
      return app.focusSearch();
    },
  },
  {
    id: "saved-prompts",
    title: m.action_saved_prompts,
    group: "chat",
    icon: "bookmark",
    words: m.action_saved_prompts_words,
    run: (app) => (app.dialog = { for: "prompts" }),
  },
  {
    id: "new-prompt",
    title: m.action_new_prompt,
    group: "chat",
    icon: "bookmark",
    words: m.action_new_prompt_words,
    run: (app) => (app.dialog = { for: "prompts", fresh: "" }),
  },
];
