// Owns the text of the polite live region.

export class Announcements {
  text = $state("");

  /** A text that is said again gets a space, since only a change is announced. */
  say(text: string): void {
    this.text = this.text === text ? `${text}\u00a0` : text;
  }
}
