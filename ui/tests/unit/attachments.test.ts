import { expect, test } from "vitest";
import { isLongPaste, pasteAsFile } from "../../src/lib/chat/longPaste";
import { started } from "./started";

test.each([
  ["x".repeat(8_000), false],
  ["x".repeat(8_001), true],
  ["\n".repeat(199), false],
  ["\n".repeat(200), true],
])("a pasted text of some length is long or not (%#)", (text, isLong) => {
  expect(isLongPaste(text)).toBe(isLong);
});

test("a long pasted text becomes a file with a name of its own", async () => {
  const { app } = await started("fresh");
  app.attachments.set(null, [{ name: "Pasted text 2.txt", text: "" }]);
  for (const text of ["one", "two"]) expect(pasteAsFile(app, text)).toBe(true);
  expect(app.attachments.get(null).map(({ name }) => name)).toEqual([
    "Pasted text 2.txt",
    "Pasted text.txt",
    "Pasted text 3.txt",
  ]);
  expect(app.toasts.all.map(({ text }) => text)).toEqual([
    "The pasted text was added as the file “Pasted text.txt”.",
    "The pasted text was added as the file “Pasted text 3.txt”.",
  ]);
});

test("a pasted text beyond the limits of files stays text", async () => {
  const { app } = await started("fresh");
  expect(pasteAsFile(app, "é".repeat(2 << 20))).toBe(true);
  expect(pasteAsFile(app, `${"é".repeat(2 << 20)}.`)).toBe(false);
  expect(pasteAsFile(app, "a\0b")).toBe(false);
  app.attachments.set(
    null,
    Array.from({ length: 50 }, (_, i) => ({ name: `${i}.txt`, text: "" })),
  );
  expect(pasteAsFile(app, "one more")).toBe(false);
  expect(app.attachments.get(null).length).toBe(50);
  expect(app.toasts.all.length).toBe(1);
});

test("a pasted file of another conversation becomes the end of its draft", async () => {
  const { app } = await started();
  await app.open(2);
  app.drafts.set(2, "About this:");
  pasteAsFile(app, "the text");
  await app.open(3);
  app.toasts.all.at(-1)?.action?.run();
  expect([app.drafts.get(2), app.attachments.get(2), app.drafts.get(3)]).toEqual(["About this:\nthe text", [], ""]);
});

test("a pasted file that was sent stays sent", async () => {
  const { app } = await started("fresh");
  pasteAsFile(app, "the text");
  await app.send("About this");
  app.toasts.all.at(-1)?.action?.run();
  await new Promise((resolve) => setTimeout(resolve));
  expect([app.drafts.get(app.thread.id), app.attachments.get(app.thread.id)]).toEqual(["", []]);
});

test("a pasted file stays if there is no composer for its text", async () => {
  const { app } = await started("fresh");
  pasteAsFile(app, "the text");
  app.toasts.all.at(-1)?.action?.run();
  await new Promise((resolve) => setTimeout(resolve));
  expect(app.attachments.get(null).map(({ text }) => text)).toEqual(["the text"]);
});
