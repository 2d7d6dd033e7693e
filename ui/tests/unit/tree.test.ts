import { expect, test } from "vitest";
import { Tree, type Link } from "../../src/lib/stores/tree";

/** `child<parent`, roots without a parent. */
function tree(text: string): Tree {
  return new Tree(
    text.split(" ").map((word): Link => {
      const [id, parent] = word.split("<").map(Number);
      return { id: id ?? 0, parent: parent ?? null };
    }),
  );
}

test.each([
  ["1 2<1 3<2", 3, [1, 2, 3]],
  ["1 2<1 3<1 4<3", 4, [1, 3, 4]],
  ["1 2<1", null, []],
  ["1 2<1", 9, []],
  ["3<2 4<3", 4, [3, 4]],
  ["1<2 2<1", 1, [2, 1]],
])("%s: the path to %s is %j", (links, leaf, path) => {
  expect(tree(links).path(leaf)).toEqual(path);
});

test.each([
  ["1 2<1 3<1 4<1", 3, [2, 3, 4]],
  ["1 2 3<1", 1, [1, 2]],
  ["1 2<1", 2, [2]],
])("%s: beside %s are %j", (links, id, siblings) => {
  expect(tree(links).siblings(id)).toEqual(siblings);
});
