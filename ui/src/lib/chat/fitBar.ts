// Makes a bar fit its width: labels become icons, then its buttons go to a second row.

/** Classes of a bar, from wide to narrow. */
const STEPS = [[], ["icons"], ["icons", "rows"]];

/** Smallest distance of the last element from both edges. Less than the padding. */
const EDGE = 9;

function fit(bar: HTMLElement): void {
  for (const classes of STEPS) {
    for (const name of ["icons", "rows"]) bar.classList.toggle(name, classes.includes(name));
    const [whole, last] = [bar, bar.lastElementChild].map((element) => element?.getBoundingClientRect());
    if (!whole || !last || Math.min(last.left - whole.left, whole.right - last.right) >= EDGE) return;
  }
}

/** Chooses the classes of a bar whenever its width or its contents change. */
export function fitBar(bar: HTMLElement): () => void {
  const resized = new ResizeObserver(() => fit(bar));
  const changed = new MutationObserver(() => {
    for (const child of bar.children) resized.observe(child);
    fit(bar);
  });
  for (const element of [bar, ...bar.children]) resized.observe(element);
  changed.observe(bar, { childList: true, characterData: true, subtree: true });
  return () => {
    resized.disconnect();
    changed.disconnect();
  };
}
