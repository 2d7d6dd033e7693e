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

test.each([
  ["1 2<1 3<2 4<2 5<1", 2, 2],
  ["1 2<1 3<2 4<2 5<1", 1, 4],
  ["1 2<1", 2, 0],
  ["1<2 2<1", 1, 1],
])("%s: below %s are %s", (links, id, count) => {
  expect(tree(links).subtree(id).size - 1).toBe(count);
});

test.each([
  ["1 2<1 3<1 4<1 5<1", [[3, 4]], 5, [[2], [3, 4], [5]]],
  ["1 2<1 3<1 4<1", [[2, 4]], 3, [[2, 4], [3]]],
  ["1 2<1", [], 2, [[2]]],
])("%s with %j together: the versions of %s are %j", (links, groups, id, versions) => {
  expect(tree(links).versions(id, (message) => groups.find((group) => group.includes(message)) ?? [])).toEqual(
    versions,
  );
});

test.each<[string, [number, ...number[]], number]>([
  ["1 2<1 3<1", [2, 3], 3],
  ["1 2<1 3<1 4<2", [2, 3], 2],
  ["1 2<1 3<1 4<3 5<2", [2, 3], 2],
])("%s: of %j, %s was continued", (links, ids, continued) => {
  expect(tree(links).continued(ids)).toBe(continued);
});
