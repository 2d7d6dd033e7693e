import { describe, expect, test } from "vitest";
import { contextUse } from "../../src/lib/chat/contextUse";
import { defaultChatSettings } from "../../src/lib/host";
import type { App } from "../../src/lib/stores/app.svelte";
import { started, tell } from "./started";
import { until } from "./until";

const SMOL = "smollm2-135m-instruct";
const QWEN = "qwen3-0.6b";
/** An adapter of a run on `SMOL`. */
const ADAPTER = 31;

/** Sends a message and waits for the end of the answer. */
async function answered(app: App, text = "What is the capital of France?"): Promise<void> {
  await app.send(text);
  await until(() => app.thread.path.length > 0 && !app.thread.busy);
}

describe("a model for one conversation", () => {
  test("answers there, and is selected for no other", async () => {
    const { app } = await started();
    await app.chooseOwnModel(QWEN);
    expect([app.chatModel?.id, app.chatState.type]).toEqual([QWEN, "none"]);
    await answered(app);
    expect(app.chatState).toMatchObject({ type: "ready", model: QWEN });
    expect(app.models.state).toMatchObject({ type: "ready", model: SMOL });
    app.newConversation();
    expect(app.chatState).toMatchObject({ type: "ready", model: SMOL });
  });

  test("ends once another one is chosen for all", async () => {
    const { app } = await started();
    await app.chooseOwnModel(QWEN);
    await app.chooseModel(SMOL);
    expect([app.thread.settings.model, app.chatModel?.id]).toEqual([null, SMOL]);
    await app.chooseModel(QWEN);
    expect([app.thread.settings.model, app.models.current?.id]).toEqual([null, QWEN]);
    // The one before stays loaded.
    expect(app.models.stateOf(SMOL).type).toBe("ready");
  });

  test("is chosen in a folder with another model, which would answer instead", async () => {
    const { app, host } = await started();
    const folder = await host.createFolder("Trips");
    await host.updateFolder({ ...folder, settings: { ...defaultChatSettings, model: QWEN } });
    app.newConversation(folder.id);
    expect(app.chatModel?.id).toBe(QWEN);
    await app.chooseModel(SMOL);
    expect([app.thread.settings.model, app.chatModel?.id]).toEqual([SMOL, SMOL]);
    await app.chooseModel(QWEN);
    expect([app.thread.settings.model, app.chatModel?.id]).toEqual([null, QWEN]);
  });

  test("that is unloaded has no state", async () => {
    const { app } = await started();
    await app.chooseOwnModel(QWEN);
    await answered(app);
    tell(app, { type: "liveModel", model: QWEN, state: { type: "none" } });
    expect(app.chatState.type).toBe("none");
    expect(app.models.isAnyLoaded).toBe(true);
  });
});

describe("the context", () => {
  const reported = { used: 696, total: 2048 };
  const answer = (model: string | null) => ({
    message: { role: "assistant", stats: {}, model, state: { type: "complete" } },
  });
  const use = (state: object, context: object | null, path: object[]) =>
    contextUse({ chatModel: { name: "B" }, chatState: state, thread: { context, path } } as unknown as App);
  const ready = { type: "ready", info: { context: 4096 } };

  test.each([
    ["of a loaded model is empty before the first answer", ready, null, [], { used: 0, total: 4096, exact: true }],
    [
      "of a loaded model has its size for the answer of another, whose tokens are an estimate",
      ready,
      reported,
      [answer("A")],
      { used: 696, total: 4096, exact: false },
    ],
    [
      "is known from an answer of the same model",
      { type: "none" },
      reported,
      [answer("B")],
      { ...reported, exact: true },
    ],
    ["is unknown if another model answered", { type: "none" }, reported, [answer("A")], null],
    ["is unknown without an answer", { type: "loading" }, null, [], null],
  ])("%s", (_, state, context, path, expected) => {
    expect(use(state, context, path)).toEqual(expected);
  });
});

describe("an adapter", () => {
  test("is in the first message of a chat, on its model", async () => {
    const { app } = await started();
    await app.models.load(QWEN);
    await app.tune.chatWith(ADAPTER);
    expect(app.compare.on).toBe(false);
    expect(app.chatModel?.id).toBe(SMOL);
    await answered(app);
    expect(app.thread.last?.message.adapters.map(({ adapter }) => adapter)).toEqual([ADAPTER]);
    expect(app.models.state).toMatchObject({ type: "ready", model: QWEN });
  });

  test("is compared with the base model, until the next conversation", async () => {
    const { app } = await started();
    await app.tune.compareWithBase(ADAPTER);
    expect(app.thread.settings.model).toBeNull();
    expect(app.compare.answers.map(({ adapters }) => adapters.map(({ adapter }) => adapter))).toEqual([[], [ADAPTER]]);
    app.newConversation();
    expect([app.compare.on, app.thread.adapters]).toEqual([false, []]);
  });

  test("is no longer compared once another conversation is opened, or the open one removed", async () => {
    const { app } = await started();
    await app.open(1);
    app.compare.toggle();
    await app.open(1);
    expect(app.compare.on).toBe(true);
    await app.open(2);
    expect(app.compare.on).toBe(false);
    app.compare.toggle();
    await app.remove(1);
    expect(app.compare.on).toBe(true);
    await app.remove(2);
    expect(app.compare.on).toBe(false);
  });
});
