// Owns what is read aloud, by a voice of the system. Voices of a service on the network are not
// used.

import { spokenText } from "../text/plain";

/** Some voices stop in long texts, so that each utterance is short. */
const MAX_UTTERANCE = 220;

export class Speech {
  /** The message that is read. */
  reading: number | null = $state(null);
  /** Whether the system has a voice. */
  available = $state(false);
  private readonly voices: SpeechSynthesis | null = typeof speechSynthesis === "undefined" ? null : speechSynthesis;
  /** Counts readings, so that the end of an old one is ignored. */
  private turn = 0;

  constructor() {
    this.look();
    this.voices?.addEventListener?.("voiceschanged", () => this.look());
  }

  read(message: number, markdown: string): void {
    this.stop();
    const pieces = utterances(spokenText(markdown));
    const voice = this.voice();
    if (!this.voices || !voice || pieces.length === 0) return;
    const turn = this.turn;
    const ended = () => {
      if (turn === this.turn) this.reading = null;
    };
    this.reading = message;
    for (const [i, piece] of pieces.entries()) {
      const utterance = new SpeechSynthesisUtterance(piece);
      utterance.voice = voice;
      utterance.lang = voice.lang;
      utterance.onerror = ended;
      if (i === pieces.length - 1) utterance.onend = ended;
      this.voices.speak(utterance);
    }
  }

  stop(): void {
    this.turn++;
    this.reading = null;
    this.voices?.cancel();
  }

  private look(): void {
    this.available = this.voice() !== null;
  }

  /** The system's own voice for its language. */
  private voice(): SpeechSynthesisVoice | null {
    if (!this.voices) return null;
    const local = this.voices.getVoices().filter((voice) => voice.localService);
    const language = navigator.language.slice(0, 2).toLowerCase();
    const fitting = local.filter((voice) => voice.lang.toLowerCase().startsWith(language));
    return (
      fitting.find((voice) => voice.default) ?? fitting[0] ?? local.find((voice) => voice.default) ?? local[0] ?? null
    );
  }
}

/**
 * A text in short pieces, at the ends of lines and sentences where possible, else between words.
 */
export function utterances(text: string): string[] {
  const pieces: string[] = [];
  for (const line of text.split(/\n+/)) {
    let piece = "";
    for (const sentence of line.match(/[^.!?。！？]+[.!?。！？]*\s*|[.!?。！？]+\s*/g) ?? []) {
      for (const part of splitSentence(sentence)) {
        if (piece !== "" && piece.length + part.length > MAX_UTTERANCE) {
          pieces.push(piece.trim());
          piece = "";
        }
        piece += part;
      }
    }
    if (piece.trim() !== "") pieces.push(piece.trim());
  }
  return pieces;
}

function splitSentence(sentence: string): string[] {
  const parts: string[] = [];
  let rest = sentence;
  while (rest.length > MAX_UTTERANCE) {
    const space = rest.lastIndexOf(" ", MAX_UTTERANCE);
    const end = space > 0 ? space + 1 : MAX_UTTERANCE;
    parts.push(rest.slice(0, end));
    rest = rest.slice(end);
  }
  return [...parts, rest];
}
