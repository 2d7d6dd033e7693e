// Owns what a screen reader is told next, politely.

export class Announcements {
  said = $state("");

  say(text: string): void {
    this.said = text;
  }
}
