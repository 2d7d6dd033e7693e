import { expect, test } from "vitest";
import { FakeHost } from "../../src/lib/host/fake";
import { defaultChatSettings } from "../../src/lib/host";
import { App } from "../../src/lib/stores/app.svelte";
import { same } from "../../src/lib/text/same";

test("settings are the same in any order of keys, with nulls or without, as floats of 32 bits", () => {
  expect(same({ a: 1, b: { c: 0.1, d: null } }, { b: { c: Math.fround(0.1) }, a: 1 })).toBe(true);
  expect(same({ a: [1, 2] }, { a: [2, 1] })).toBe(false);
  expect(same({ stop: [] }, { stop: null })).toBe(false);
  expect(same([{ id: 1, bias: null }], [{ id: 2, bias: null }])).toBe(false);
});

test("a preset without a prompt is not modified by a conversation's own", async () => {
  const app = new App(new FakeHost("fresh"));
  await app.start();
  expect([app.presets.chosen, app.presets.modified, app.thread.hasSettings]).toEqual([null, false, false]);
  await app.presets.apply("built-in:precise");
  await app.thread.setSystemPrompt("Mine.");
  expect([app.presets.chosen?.name, app.presets.modified]).toEqual(["Precise", false]);
  await app.thread.setSettings({ ...app.thread.settings, maxTokens: 5 });
  expect(app.presets.modified).toBe(true);
  await app.presets.leave();
  expect([app.presets.chosen, app.thread.settings.maxTokens]).toEqual([null, 5]);
  await app.thread.resetSettings();
  expect(same(app.thread.settings, defaultChatSettings)).toBe(true);
});

test("an answer's preset, taken over, replaces the prompt of the preset before, and leaves a person's own", async () => {
  const host = new FakeHost("fresh");
  host.pace = 0;
  const app = new App(host);
  await app.start();
  const preset = app.presets.all.find(({ id }) => id === "built-in:precise");
  if (!preset) throw new Error("No preset.");
  const sings = await host.savePreset("Sings", { ...preset.values, systemPrompt: "Sing." });
  await app.presets.load();
  for (const systemPrompt of [null, "Mine."]) {
    app.newConversation();
    await app.presets.apply(sings.id);
    if (systemPrompt !== null) await app.thread.setSystemPrompt(systemPrompt);
    const compared = [
      { overrides: { model: null, preset: null, sampling: null }, adapters: [] },
      { overrides: { model: null, preset, sampling: null }, adapters: [] },
    ];
    const [, answer] = (await app.thread.compare(compared, "What is the capital of France?", [])).answers;
    if (!answer) throw new Error("No answer.");
    await app.applyAnswer(answer, "Precise");
    expect([app.thread.settings.preset, app.thread.systemPrompt]).toEqual([preset.id, systemPrompt]);
  }
});
