import { afterEach, expect, test } from "vitest";
import type { ImportReport } from "../../src/lib/host";
import { grouped } from "../../src/lib/stores/conversations.svelte";
import { isExport } from "../../src/lib/stores/tune.svelte";
import { backupSentences, formerSentence, importSentences, restoreSentences } from "../../src/lib/text/transfer";
import { language } from "../../src/lib/text/language.svelte";

afterEach(() => language.choose("en"));

const report: ImportReport = {
  formats: ["claude"],
  found: 120,
  imported: 117,
  extended: 0,
  known: 0,
  messages: 2000,
  skipped: [],
};

test("a report says what was imported, known and skipped", () => {
  expect(importSentences({ ...report, found: 117 })).toEqual(["117 conversations were imported from Claude."]);
  const skipped: ImportReport["skipped"] = [
    { reason: "tooLarge", limit: 32 << 20, count: 1, example: "A novel" },
    { reason: "tooLarge", limit: 256 << 20, count: 1, example: null },
    { reason: "tooManyValues", limit: 8_000_000, count: 2, example: null },
    { reason: "tooManyMessages", limit: 200_000, count: 1, example: null },
    { reason: "empty", limit: null, count: 2, example: null },
  ];
  expect(importSentences({ ...report, skipped })[1]).toBe(
    "7 of 120 conversations were skipped: 1 is larger than 34 MB (“A novel”), 1 is larger than 268 MB, 2 have more than 8,000,000 JSON values, 1 has more than 200,000 messages, 2 are empty.",
  );
  expect(importSentences({ ...report, imported: 0, extended: 1, known: 1, formats: [] })).toEqual([
    "No new conversations were imported.",
    "1 conversation that was imported before has new messages.",
    "1 conversation was imported before.",
  ]);
});

test.each([
  [
    "en",
    [
      "1 conversation was imported from ChatGPT and Claude.",
      "1 of 1,200 conversations was skipped: 1 is empty (“A novel”).",
    ],
  ],
  [
    "de",
    [
      "1 Unterhaltung wurde aus ChatGPT und Claude importiert.",
      "1 von 1.200 Unterhaltungen wurde übersprungen: 1 ist leer („A novel“).",
    ],
  ],
  [
    "es",
    ["Se importó 1 conversación de ChatGPT y Claude.", "Se omitió 1 de 1200 conversaciones: 1 está vacía («A novel»)."],
  ],
  ["zh-CN", ["已从 ChatGPT 和 Claude 导入 1 个对话。", "跳过了 1,200 个对话中的 1 个：1 个为空（“A novel”）。"]],
])("a report in %s orders its sentences as the language does", (locale, texts) => {
  language.choose(locale);
  expect(
    importSentences({
      ...report,
      formats: ["chatGpt", "claude"],
      found: 1200,
      imported: 1,
      skipped: [{ reason: "empty", limit: null, count: 1, example: "A novel" }],
    }),
  ).toEqual(texts);
});

test("a backup says what is not in it, a restoration what is not restored, a deletion what stays", () => {
  const skipped = [
    { reason: "name" as const, count: 2, example: "runs/1/a" },
    { reason: "notAFile" as const, count: 1, example: "runs/1/link" },
  ];
  const written = { path: "/x.hearthbackup", bytes: 1000, files: 3, skipped };
  expect(backupSentences(written)[1]).toBe(
    "3 files are not in the backup: 2 have names that cannot be used (“runs/1/a”), 1 is a link or another special file (“runs/1/link”).",
  );
  expect(backupSentences({ ...written, skipped: [] })).toHaveLength(1);
  const pending = { madeAt: 0, conversations: 1, files: 3, aside: "/aside", skipped: skipped.slice(0, 1) };
  expect(restoreSentences(pending, 0)[1]).toBe(
    "2 files of the backup are not restored: 2 have names that cannot be used (“runs/1/a”).",
  );
  expect(formerSentence({ left: 0, example: null })).toBeNull();
  expect(formerSentence({ left: 2, example: "/old/a" })).toBe(
    "The copy is deleted. 2 files there were not part of it and stay, such as /old/a.",
  );
});

test("files that only exports have are told from datasets", () => {
  for (const name of [
    "x/conversations.json",
    "conversations-003.json",
    "C:\\a\\thread.json",
    "1735.conversation.json",
    "all.zip",
    "chat-export-17.json",
  ])
    expect(isExport(name), name).toBe(true);
  for (const name of ["data.json", "my-conversations.json", "replies.jsonl", "messages.json", "zip", "x.csv"])
    expect(isExport(name), name).toBe(false);
});

test("pinned conversations come first, in their own group", () => {
  const now = Date.now();
  const summary = (id: number, pinned: boolean) => ({
    id,
    title: "",
    createdAt: 0,
    updatedAt: now,
    model: null,
    pinned,
    folder: null,
    tags: [],
  });
  const groups = grouped([summary(1, false), summary(2, true), summary(3, false)], now);
  expect(groups.map(({ name, conversations }) => [name, conversations.map(({ id }) => id)])).toEqual([
    ["Pinned", [2]],
    ["Today", [1, 3]],
  ]);
});
