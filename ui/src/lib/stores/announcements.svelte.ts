// Owns the text of the polite live region.

export class Announcements {
  text = $state("");
  /** What was said in this task, before anything is drawn. */
  private said: readonly string[] = [];

  /**
   * Says a text. Those of one task are said together, since only what is drawn is announced. A text that is said again gets
   * a space, since only a change is announced.
   */
  say(text: string): void {
    if (this.said.length === 0) setTimeout(() => (this.said = []));
    this.said = [...this.said, text];
    const all = this.said.join(" ");
    this.text = this.text === all ? `${all}\u00a0` : all;
  }
}
