// Owns the text of the polite live region.

export class Announcements {
  text = $state("");
  /** Texts announced in the current task. */
  private messages: readonly string[] = [];

  /**
   * Announces a text. The texts of one task are announced together, since only drawn text is
   * announced. A repeated text gets a space, since only a change is announced.
   */
  say(text: string): void {
    if (this.messages.length === 0) setTimeout(() => (this.messages = []));
    this.messages = [...this.messages, text];
    const all = this.messages.join(" ");
    this.text = this.text === all ? `${all}\u00a0` : all;
  }
}
