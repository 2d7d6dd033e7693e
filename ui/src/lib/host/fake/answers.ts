// Answers of the fake model: one per kind of question, split into token-like pieces.

import type { DraftStats, DroppedTurns, MessageState } from "../wire";
import { problem } from "./problems";

export interface Script {
  /** Pieces of the thought, which comes first. */
  thought: string[];
  /** Pieces that are sent as text first. They become a thought when the thought ends. */
  folded: string[];
  pieces: string[];
  end: MessageState;
  promptTokens: number;
  dropped: DroppedTurns | null;
  /** Draft statistics, if the model has a draft. */
  draft: Omit<DraftStats, "kind">;
}

const nothingDrafted: Script["draft"] = { drafted: 0, accepted: 0, gain: 1, used: 0, stopped: false };

const vec = `Because the iterator holds a **shared borrow** of the vector, and pushing needs an *exclusive* one. If pushing were allowed, the vector could move its elements and the iterator would point at freed memory.

\`\`\`rust
let more: Vec<_> = v.iter().map(|x| x * 2).collect();
v.extend(more);
\`\`\`

Collect first, then extend: the borrow ends before the change begins.`;

export const tour = `## What Hearth can show

A list, nested:

1. Put the kettle on
2. Choose a tea
   - green, at **80 °C**
   - black, at 100 °C
3. Wait *three* minutes

| Model | Quant | Size |
|---|:---:|---:|
| SmolLM2 135M | Q4_1 | 98 MB |
| Qwen3 0.6B | Q8_0 | 639 MB |

> The cat, having eaten, considered the matter closed.

Inline \`code\`, ~~a mistake~~, and a [link to the Rust book](https://doc.rust-lang.org/book/).

\`\`\`python
def greet(name: str) -> str:
    """Say hello."""
    return f"Hello, {name}!"  # warm
\`\`\`

---

- [x] Streams
- [ ] Sings`;

export const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>

![pixel](https://example.com/track.png)

[click me](javascript:window.pwned=1) and [an honest one](https://example.com/page)

<a href="https://example.com" onclick="window.pwned=1">raw</a> <iframe src="https://example.com"></iframe>

[data](data:text/html,hello) ![x](x" onerror="window.pwned=1)

$\\href{javascript:window.pwned=1}{x}$ $\\includegraphics{https://example.com/x.png}$ $\\htmlStyle{position: fixed}{x}$ $\\kern-90em\\rule{900em}{900em}$

A note[^<b>]. [^<b>]: <img src=x onerror="window.pwned=1"> And another[^x].

[^x]: <svg onload="window.pwned=1"> [a note](javascript:window.pwned=1)

\`\`\`mermaid
graph TD
A["<img src=x onerror='window.pwned=1'>"] --> B
click A "javascript:window.pwned=1"
style A fill:url(https://example.com/x.png)
\`\`\`

\`\`\`html
<script>window.pwned=1</script>
\`\`\``;

/** Formulas, footnotes and long code. */
export const lecture = `The area under the bell curve is $\\sqrt{\\pi}$, a fact[^gauss] that costs $5 in some books and $10 in others:

$$
\\int_{-\\infty}^{\\infty} e^{-x^2}\\,dx
= \\sqrt{\\pi}
$$

Squared, it is a double integral, which polar coordinates solve:

\\[
I^2 = \\int_0^{2\\pi}\\!\\int_0^\\infty e^{-r^2} r\\,dr\\,d\\varphi = \\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}_{11} \\cdot \\pi
\\]

This is not maths: $\\frac{1}{2$, and \`$x$\` is code. *A variable \\(a_1 * b_1\\) in emphasis.*

\`\`\`python
${Array.from({ length: 40 }, (_, i) => `line_${i + 1} = ${i + 1}`).join("\n")}
\`\`\`

\`\`\`mermaid
graph TD
  A[Write the integral twice] --> B{Polar coordinates?}
  B -->|yes| C[Solve it]
  B -->|no| D[Give up]
\`\`\`

Déjà vu: the last line.[^1]

[^gauss]: Named after *Gauss*, found by Laplace.
[^1]: A second note, with \`code\`.`;

const short = `The capital of France is **Paris**. It lies on the Seine, and about two million people live in the city itself.`;

/** Repeated text, as from a small model that never ends its answer. */
const endless = `It is a quiet town. ${"The river runs past the mill, and the mill turns with the river. ".repeat(60)}`;

const order = `I am an AI language model and cannot see your orders. Contact the customer service of the shop, give them your order number, and ask when it will arrive.`;

const long = Array.from(
  { length: 24 },
  (_, i) =>
    `Paragraph ${i + 1}. The fire in the hearth burned low, and the room grew quiet; only the clock went on counting, one soft tick after another.`,
).join("\n\n");

const thought =
  "The question is which city is the capital of France.\n\nIt is Paris; Lyon and Marseille are large, but no capitals. So: Paris, with a sentence about where it lies.";

/** A text as a model generates it. */
function pieces(text: string): string[] {
  return text.match(/\s*\S{1,6}|\s+/g) ?? [];
}

/** Picks the answer by a word in the question. */
export function scriptedAnswer(question: string): Script {
  const script: Script = {
    thought: /think/i.test(question) ? pieces(thought) : [],
    folded: /wonder/i.test(question) ? pieces(thought) : [],
    pieces: [],
    end: { type: "complete" },
    promptTokens: 210,
    dropped: null,
    draft: nothingDrafted,
  };
  let text = short;
  const requested = /^say: ([\s\S]+)$/i.exec(question)?.[1];
  if (requested !== undefined) text = requested;
  else if (/hostile/i.test(question)) text = hostile;
  else if (/markdown|show me everything/i.test(question)) text = tour;
  else if (/lecture/i.test(question)) text = lecture;
  else if (/vec|borrow/i.test(question)) text = vec;
  else if (/loop/i.test(question)) text = endless;
  else if (/order/i.test(question)) text = order;
  else if (/story|long/i.test(question)) text = long;
  if (/cut/i.test(question)) script.end = { type: "truncated", reason: "length" };
  if (/\bends? in a loop/i.test(question)) script.end = { type: "truncated", reason: "repetition" };
  if (/context is full/i.test(question)) script.end = { type: "truncated", reason: "contextFull" };
  if (/older/i.test(question)) script.dropped = { messages: 3, tokens: 412 };
  if (/fails/i.test(question)) {
    script.end = {
      type: "failed",
      problem: problem("outOfMemory", {
        area: "chat",
        type: "workerOutOfMemory",
        cause: problem("outOfMemory", { area: "worker", type: "outOfMemory" }),
      }),
    };
    text = text.slice(0, 60);
  }
  script.pieces = pieces(text);
  const tokens = script.pieces.length;
  if (/repeat/i.test(question))
    script.draft = { drafted: tokens, accepted: Math.round(tokens * 0.6), gain: 1.8, used: 0.4, stopped: false };
  if (/surprise/i.test(question))
    script.draft = { drafted: tokens, accepted: 1, gain: 0.97, used: 0.12, stopped: true };
  return script;
}

/**
 * The title that the model writes for a conversation with this first message; `null` means that the
 * first words stay.
 */
export function scriptedTitle(question: string): string | null {
  return /\btitled: ([^\n]+)/i.exec(question)?.[1] ?? null;
}

const warm: Record<string, string> = {
  default:
    "Thank you for asking. It is **Paris**, and a pleasant answer to give: the city lies on the Seine, and about two million people live there. Is there anything else I can look up for you?",
  late: "Sorry about the wait. I have looked it up: it left Lyon this morning and should reach you on Tuesday. If it does not, write to me and I will send another the same day.",
};

/** The continuation of an answer's text: the rest of its script, or another sentence. */
export function continuation(script: Script, text: string): Script {
  const fullText = script.pieces.join("");
  const rest =
    fullText.startsWith(text) && fullText.length > text.length
      ? fullText.slice(text.length)
      : text.endsWith("That is all.")
        ? ""
        : " That is all.";
  return { ...script, thought: [], folded: [], pieces: pieces(rest), end: { type: "complete" } };
}

/** The answer with an adapter: the same question, in the adapter's style. */
export function tunedAnswer(question: string): Script {
  const script = scriptedAnswer(question);
  if (script.end.type === "failed" || /long|story|markdown/i.test(question)) return script;
  const text = /late|order/i.test(question) ? warm.late : warm.default;
  return { ...script, pieces: pieces(text ?? "") };
}
