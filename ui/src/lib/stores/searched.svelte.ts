// The query of the search in the open conversation. Folded code that contains it unfolds.

import { fold } from "../text/fold";

class Searched {
  /** Normalized by `fold`; empty if there is no search. */
  query = $state("");

  covers(code: string): boolean {
    return this.query !== "" && fold(code).text.includes(this.query);
  }
}

export const searched = new Searched();
