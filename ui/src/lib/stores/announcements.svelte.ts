// Owns the text of the polite live region.

export class Announcements {
  text = $state("");
  /** Texts of this task, before anything is drawn. */
  private said: readonly string[] = [];

  /**
   * Announces a text. The texts of one task are announced together, since only drawn text is
   * announced. A repeated text gets a space, since only a change is announced.
   */
  say(text: string): void {
    if (this.said.length === 0) setTimeout(() => (this.said = []));
    this.said = [...this.said, text];
    const all = this.said.join(" ");
    this.text = this.text === all ? `${all}\u00a0` : all;
  }
}
