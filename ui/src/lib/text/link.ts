// Texts on opened links.

import { m } from "$messages";
import type { LinkPlace, LinkRefusal } from "../host";

const refusals: Record<LinkRefusal, () => string> = {
  tooLong: m.shell_link_too_long,
  hiddenCharacters: m.shell_link_hidden,
  unknownForm: m.shell_link_unknown,
  unknownSource: m.shell_link_unknown_source,
};

/** The reason for which a link is not followed. */
export function refusalText(reason: LinkRefusal): string {
  return refusals[reason]();
}

/** The host that serves a model; `hub` is the hub of the settings. */
export function hostOf(place: LinkPlace, hub: string): string {
  return place.type === "hub" ? hub : place.host;
}

/**
 * The name of a model. It is isolated, so that letters of another direction do not reorder the
 * sentence around it.
 */
export function nameOf(place: LinkPlace): string {
  return `\u2068${place.type === "web" ? place.file : place.name}\u2069`;
}

/** Where a model comes from, part by part. */
export function placeFacts(place: LinkPlace, hub: string): [string, string][] {
  const facts: [string, string | null][] = [[m.shell_link_from(), hostOf(place, hub)]];
  if (place.type === "hub") {
    facts.push(
      [m.shell_link_owner(), place.owner],
      [m.shell_link_repository(), place.name],
      [m.shell_link_revision(), place.revision],
    );
    facts.push([m.models_quantization(), place.quantization], [m.shell_link_file(), place.file]);
  } else if (place.type === "ollama") {
    facts.push([m.shell_link_owner(), place.owner], [m.shell_link_name(), place.name], [m.shell_link_tag(), place.tag]);
  } else {
    facts.push([m.shell_link_file(), place.file]);
  }
  return facts.filter((fact): fact is [string, string] => fact[1] !== null);
}
