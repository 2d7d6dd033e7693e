// Titles that the model writes after the first answer of a conversation.

import { expect, test } from "vitest";
import { started } from "./started";
import { until } from "./until";

/** An app, and functions that send a message and read the title of a conversation. */
async function chat() {
  const { app, host } = await started();
  const title = (id: number) => app.conversations.all.find((conversation) => conversation.id === id)?.title;
  const send = async (text: string, conversation: number | null = null) => {
    const sent = await host.send(conversation, null, text);
    const hasEnded = async () =>
      (await host.openConversation(sent.conversation.id)).messages.every(
        ({ state }) => state.type === "complete" || state.type === "failed",
      );
    while (!(await hasEnded())) await new Promise((resolve) => setTimeout(resolve));
    return sent.conversation.id;
  };
  return { app, host, title, send };
}

test("the title of the model replaces the first words, once", async () => {
  const { title, send } = await chat();
  const id = await send("titled: Rain");
  await until(() => title(id) === "Rain");
  await send("titled: Snow", id);
  expect(title(id)).toBe("Rain");
});

test("the first words stay without a title, after a failure, and if the setting is off", async () => {
  const { app, title, send } = await chat();
  expect(title(await send("What is rain?"))).toBe("What is rain?");
  expect(title(await send("This fails, titled: Rain"))).toBe("This fails, titled: Rain");
  await app.settings.change({ generatedTitles: false });
  expect(title(await send("titled: Rain"))).toBe("titled: Rain");
});

test("a title that the user typed stays", async () => {
  const { host, title, send } = await chat();
  host.pace = 1;
  const sent = await host.send(null, null, "titled: Rain");
  await host.renameConversation(sent.conversation.id, "Mine");
  host.pace = 0;
  await send("on", sent.conversation.id);
  await until(() => title(sent.conversation.id) === "Mine");
});
