// The title of an element under the pointer, which is taken so that the browser shows no tooltip.

export class TakenTitle {
  private readonly observer = new MutationObserver(() => this.take());
  /** The attribute that has the title's text meanwhile. */
  private readonly substitute: "aria-label" | "aria-description" | null;
  text = "";

  constructor(readonly element: HTMLElement) {
    this.substitute = substituteOf(element);
    this.take();
    this.observer.observe(element, { attributeFilter: ["title"] });
  }

  giveBack(): void {
    // A change that the observer has not reported yet.
    this.take();
    this.observer.disconnect();
    if (this.substitute) this.element.removeAttribute(this.substitute);
    this.element.title = this.text;
  }

  /** Takes the title, also a new one, which may be empty. */
  private take(): void {
    const { element, substitute } = this;
    if (!element.hasAttribute("title")) return;
    this.text = element.title;
    element.removeAttribute("title");
    if (!substitute) return;
    if (this.text === "") element.removeAttribute(substitute);
    else element.setAttribute(substitute, this.text);
  }
}

/** The attribute that keeps the accessible name and description without the title. */
function substituteOf(element: HTMLElement): TakenTitle["substitute"] {
  const name = element.getAttribute("aria-label");
  const isNamed = name !== null || element.hasAttribute("aria-labelledby") || element.textContent.trim() !== "";
  if (!isNamed) return "aria-label";
  const isDescribed = element.hasAttribute("aria-description") || element.hasAttribute("aria-describedby");
  return isDescribed || name === element.title ? null : "aria-description";
}
