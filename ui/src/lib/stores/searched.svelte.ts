// Owns the text that is searched in the thread, at which folded code opens.

import { fold } from "../text/fold";

class Searched {
  /** Folded; empty: nothing is searched. */
  query = $state("");

  covers(code: string): boolean {
    return this.query !== "" && fold(code).text.includes(this.query);
  }
}

export const searched = new Searched();
