// Faults of the page's layout: the tests of the real window run this file in WebKitGTK, too.

/**
 * Controls and texts of bars that overlap another one or leave the window, and the model's name and
 * the button Send if they cannot be seen and clicked. One line each.
 * @returns {string[]}
 */
function layoutFaults() {
  const controls =
    "button, input, select, textarea, a[href], summary, [role=meter], [data-testid=device], [data-testid=context-meter]";
  /** What covers the page on purpose. */
  const layers = "[data-testid=chat-settings], [data-testid=find], dialog, [popover]";
  const tolerance = 1;

  /**
   * The part of an element that its scrolling ancestors show. `null` if there is none.
   * @param {Element} element
   */
  function visibleBox(element) {
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return null;
    let { left, top, right, bottom } = element.getBoundingClientRect();
    for (let around = element.parentElement; around; around = around.parentElement) {
      const { overflowX, overflowY } = getComputedStyle(around);
      const box = around.getBoundingClientRect();
      // The page itself does not scroll: what it clips has left the window.
      if (around === document.body || around === document.documentElement) break;
      if (overflowX !== "visible") [left, right] = [Math.max(left, box.left), Math.min(right, box.right)];
      if (overflowY !== "visible") [top, bottom] = [Math.max(top, box.top), Math.min(bottom, box.bottom)];
    }
    return right - left > tolerance && bottom - top > tolerance ? { left, top, right, bottom } : null;
  }

  /** @param {Element} element */
  const name = (element) => {
    const text = element.getAttribute("data-testid") ?? element.getAttribute("aria-label") ?? element.textContent;
    return `${element.localName} "${(text ?? "").trim().slice(0, 40)}"`;
  };

  const shown = [...document.querySelectorAll(controls)].flatMap((element) => {
    const box = visibleBox(element);
    return box ? [{ element, box, layer: element.closest(layers) }] : [];
  });
  const faults = shown
    .filter(
      ({ box }) =>
        box.left < -tolerance ||
        box.top < -tolerance ||
        box.right > innerWidth + tolerance ||
        box.bottom > innerHeight + tolerance,
    )
    .map(({ element }) => `${name(element)} leaves the window`);
  for (const [at, one] of shown.entries())
    for (const other of shown.slice(at + 1)) {
      if (one.layer !== other.layer || one.element.contains(other.element) || other.element.contains(one.element))
        continue;
      const width = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
      const height = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
      if (width > tolerance && height > tolerance) faults.push(`${name(one.element)} overlaps ${name(other.element)}`);
    }

  /** @param {string} selector @param {number} width */
  function reach(selector, width) {
    const element = document.querySelector(selector);
    const box = element && visibleBox(element);
    if (!box || box.right - box.left < width) return faults.push(`${selector} is not visible`);
    const at = document.elementFromPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    if (at?.closest(layers)) return;
    if (!at || !element.closest("button")?.contains(at)) faults.push(`${selector} is covered`);
  }
  const nameOfModel = "[data-testid=model-pill] .name";
  const whole = document.querySelector(nameOfModel)?.scrollWidth ?? 0;
  // At least this much of a long name.
  reach(nameOfModel, Math.min(whole - tolerance, 100));
  reach("[data-testid=send]", 30);
  return faults;
}
