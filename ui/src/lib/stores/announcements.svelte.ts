// Owns the text of the polite live region.

export class Announcements {
    text = $state("");

  say(text: string): void {
    this.text = text;
  }
}
