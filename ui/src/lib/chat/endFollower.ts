// Follows the end of a scrolling list until the user scrolls up.

/** Distance from the end, in pixels, that counts as the end. */
const NEAR = 32;
/** Keys that scroll up (not text). */
const UP = new Set(["ArrowUp", "PageUp", "Home"]);
/** Elements in which keys do not scroll the list (not text). */
const FIELDS = "input, textarea, select";

/**
 * Whether a list follows its end. Only input ends that, not a changed position: when rows shrink, the
 * browser moves the list as well, and WebKit reports that late.
 */
export class EndFollower {
  private wanted = true;
  /** Whether the pointer is down: it drags the scrollbar or selects text. */
  private held = false;
  private lastTop = 0;

  constructor(private readonly list: () => HTMLElement) {}

  /** Whether the list goes to its end now: not while the user drags or edits text in it. */
  get isActive(): boolean {
    return this.wanted && !this.isMoving;
  }

  /** Whether the end is followed or near. */
  get isAtEnd(): boolean {
    return this.wanted || this.isNear;
  }

  get isNear(): boolean {
    const { scrollHeight, scrollTop, clientHeight } = this.list();
    return scrollHeight - scrollTop - clientHeight < NEAR;
  }

  start(): void {
    this.wanted = true;
  }

  stop(): void {
    this.wanted = false;
  }

  /** Must be called after the page has set the position. */
  moved(): void {
    this.lastTop = this.list().scrollTop;
  }

  scrolled(): void {
    const { scrollTop } = this.list();
    if (scrollTop > this.lastTop && this.isNear) this.wanted = true;
    else if (scrollTop < this.lastTop && this.isMoving && !this.isNear) this.wanted = false;
    this.lastTop = scrollTop;
  }

  /** Must come before the list scrolls, so its listener cannot be passive. */
  wheel(event: WheelEvent): void {
    if (event.deltaY < 0 && !event.ctrlKey && !this.scrollsWithin(event.target)) this.up();
  }

  /** Handles a key that the list leaves to the browser. */
  key(event: KeyboardEvent): void {
    const { target, key, shiftKey, altKey, defaultPrevented } = event;
    if (defaultPrevented || altKey || !(target instanceof Element)) return;
    if (target.closest(`${FIELDS}, dialog, [popover]`)) return;
    if (UP.has(key) || (key === " " && shiftKey && !target.closest("button, summary"))) this.up();
  }

  /** An element in the list was focused, which scrolls it into view. */
  focused({ target }: FocusEvent): void {
    if (!(target instanceof Element) || target === this.list() || this.held) return;
    if (target.closest("dialog, [popover]")) return;
    const isAbove = target.getBoundingClientRect().top < this.list().getBoundingClientRect().top - 1;
    if (isAbove || !this.isNear) this.wanted = false;
  }

  press({ button }: PointerEvent): void {
    // The middle button may begin to scroll without being held.
    if (button === 1) this.up();
    else if (button === 0) this.hold();
  }

  hold(): void {
    this.held = true;
  }

  /** Returns `true` if the list was held. */
  release(): boolean {
    const { held } = this;
    this.held = false;
    return held;
  }

  private up(): void {
    if (this.list().scrollTop > 0) this.wanted = false;
  }

  /** Whether changes of the position are the user's: a caret also scrolls into view. */
  private get isMoving(): boolean {
    const focus = document.activeElement;
    return this.held || (focus !== null && focus.matches(FIELDS) && this.list().contains(focus));
  }

  /** Whether an element in the list scrolls up, not the list. */
  private scrollsWithin(target: EventTarget | null): boolean {
    for (let element = target; element instanceof Element && element !== this.list(); element = element.parentElement)
      if (element.scrollTop > 0) return true;
    return false;
  }
}
