// The labels in exported conversations.

import { m } from "$messages";
import type { ExportLabels } from "../host";
import { language } from "./language.svelte";

export function exportLabels(): ExportLabels {
  return {
    language: language.locale,
    conversations: m.settings_export_name(),
    user: m.text_export_user(),
    assistant: m.text_export_assistant(),
    system: m.text_export_system(),
    systemPrompt: m.chat_system_prompt(),
    thought: m.chat_thought(),
    toolCall: m.text_export_tool_call(),
    toolResult: m.text_export_tool_result(),
    image: m.text_export_image(),
    file: m.text_export_file(),
  };
}
