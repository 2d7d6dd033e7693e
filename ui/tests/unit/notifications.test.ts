import { expect, test } from "vitest";
import type { Download, Host, Message, Run } from "../../src/lib/host";
import { Notifications } from "../../src/lib/stores/notifications";

function notifier() {
  const shown: [string, string][] = [];
  const state = { wanted: true, now: 0, run: "finished" };
  const notifications = new Notifications(
    {
      host: { notify: async (title: string, body: string) => void shown.push([title, body]) } as unknown as Host,
      wanted: () => state.wanted,
      title: () => "A chat",
    },
    () => state.now,
  );
  const message = (type: string, id = 1) =>
    notifications.handle({
      type: "messageChanged",
      message: { id, conversation: 5, role: "assistant", state: { type } } as unknown as Message,
    });
  const downloads = (...types: string[]) =>
    notifications.handle({
      type: "downloadsChanged",
      downloads: types.map((type, id) => ({ id, name: `File ${id}`, state: { type } }) as unknown as Download),
    });
  const ended = () => {
    const run = { id: 3, name: "My run", state: { type: state.run } } as unknown as Run;
    return notifications.handle({ type: "runEnded", run });
  };
  return { shown, state, message, downloads, ended };
}

test("notifies of a long answer only if it was not stopped", async () => {
  const { shown, state, message } = notifier();
  await message("complete", 9);
  await message("waiting");
  state.now = 19_000;
  await message("complete");
  await message("waiting");
  state.now += 21_000;
  await message("stopped");
  expect(shown).toEqual([]);
  await message("waiting");
  state.now += 21_000;
  await message("streaming");
  await message("complete");
  await message("waiting");
  state.now += 21_000;
  await message("failed");
  expect(shown).toEqual([
    ["Your answer is ready", "A chat"],
    ["An answer failed", "A chat"],
  ]);
});

test("a download is told once, when it ends", async () => {
  const { shown, downloads } = notifier();
  await downloads("done", "running", "queued");
  await downloads("done", "checking", "running");
  await downloads("done", "done", "failed");
  await downloads("done", "done", "failed");
  expect(shown).toEqual([
    ["A download is complete", "File 1"],
    ["A download failed", "File 2"],
  ]);
});

test("a run is told as it ended, unless notifications are off", async () => {
  const { shown, state, ended } = notifier();
  await ended();
  state.run = "failed";
  await ended();
  state.run = "interrupted";
  await ended();
  state.wanted = false;
  await ended();
  expect(shown).toEqual([
    ["Training is done", "My run"],
    ["Training failed", "My run"],
    ["Training was interrupted", "My run"],
  ]);
});
