// The title of an element under the pointer, which is taken so that the browser shows no tooltip.

export class TakenTitle {
  private readonly observer = new MutationObserver(() => this.take());
  /** The attribute that stands for the title meanwhile. */
  private readonly stand: "aria-label" | "aria-description" | null;
  text = "";

  constructor(readonly element: HTMLElement) {
    this.stand = standIn(element);
    this.take();
    this.observer.observe(element, { attributeFilter: ["title"] });
  }

  giveBack(): void {
    // A change that the observer has not reported yet.
    this.take();
    this.observer.disconnect();
    if (this.stand) this.element.removeAttribute(this.stand);
    this.element.title = this.text;
  }

  /** Takes the title, also a new one, which may be empty. */
  private take(): void {
    const { element, stand } = this;
    if (!element.hasAttribute("title")) return;
    this.text = element.title;
    element.removeAttribute("title");
    if (!stand) return;
    if (this.text === "") element.removeAttribute(stand);
    else element.setAttribute(stand, this.text);
  }
}

/** The attribute that keeps the accessible name and description without the title. */
function standIn(element: HTMLElement): TakenTitle["stand"] {
  const name = element.getAttribute("aria-label");
  const isNamed = name !== null || element.hasAttribute("aria-labelledby") || element.textContent.trim() !== "";
  if (!isNamed) return "aria-label";
  const isDescribed = element.hasAttribute("aria-description") || element.hasAttribute("aria-describedby");
  return isDescribed || name === element.title ? null : "aria-description";
}
