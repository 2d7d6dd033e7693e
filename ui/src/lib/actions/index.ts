// The table of actions: what keys, the command palette and the page Shortcuts know.

import { actionOf, type Action } from "./action";
import { chatActions } from "./chat";
import { goToActions } from "./goto";
import { modelActions } from "./models";
import { organizingActions } from "./organizing";
import { presetActions } from "./presets";
import { tuneActions } from "./tune";
import { windowActions } from "./window";

export { groups, type Action, type Group } from "./action";

export const actions: readonly Action[] = [
  ...chatActions,
  ...organizingActions,
  ...presetActions,
  ...goToActions,
  ...modelActions,
  ...tuneActions,
  ...windowActions,
].map(actionOf);

/** The id of an action of the table. */
export const action = (id: string): Action | null => actions.find((candidate) => candidate.id === id) ?? null;
