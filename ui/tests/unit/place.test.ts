// The place of the window that a reload of the page returns to.

import { expect, test } from "vitest";
import { readPlace, writePlace, type Place } from "../../src/lib/stores/place";
import { started } from "./started";

function storage(text: string | null) {
  let stored = text;
  return { getItem: () => stored, setItem: (_: string, value: string) => void (stored = value) };
}

test("a place is stored and read", () => {
  const place: Place = {
    view: "tune",
    conversation: 7,
    folder: null,
    settingsPage: "hardware",
    modelsTab: "discover",
    tune: { at: "run", run: 21 },
  };
  const kept = storage(null);
  writePlace(kept, place);
  expect(readPlace(kept)).toEqual(place);
});

test.each([null, "", "null", "7", "{"])("there is no place in %j", (text) => {
  expect(readPlace(storage(text))).toBeNull();
});

test.each(["{}", '{"view":"x","conversation":"1","folder":1.5,"settingsPage":[],"modelsTab":{},"tune":{"at":"run"}}'])(
  "what is unknown in %s is the default",
  (text) => {
    expect(readPlace(storage(text))).toEqual({
      view: "chat",
      conversation: null,
      folder: null,
      settingsPage: "general",
      modelsTab: "machine",
      tune: { at: "start" },
    });
  },
);

test("a window without storage has no place", () => {
  expect(readPlace(null)).toBeNull();
});

test("a run that is opened while Tune starts stays open", async () => {
  const { app } = await started();
  const start = app.tune.start({ at: "run", run: 21 });
  app.tune.openRun(23);
  await start;
  expect(app.tune.page).toEqual({ at: "run", id: 23 });
});
