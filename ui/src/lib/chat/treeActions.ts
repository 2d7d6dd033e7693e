// The actions of a message that change the tree of its conversation.

import { m } from "$messages";
import type { Action } from "../shell/menu";
import type { App } from "../stores/app.svelte";

/** `anonymous`: the model of an answer is hidden, and a branch would name it. */
export function treeActions(app: App, message: number, anonymous = false): Action[] {
  const branchOff = {
    label: m.menu_branch_off(),
    run: () => void app.branchOff(message),
    testid: "branch-off",
  };
  const remove = {
    label: m.menu_delete(),
    run: () => void app.deletion.begin(message),
    testid: "delete-message",
    danger: true,
  };
  return anonymous ? [remove] : [branchOff, remove];
}
