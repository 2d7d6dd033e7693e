import { expect, test } from "vitest";
import { count, dayGroup, fileSize, parameters, percent, plural, seconds, speed } from "../../src/lib/text/format";

test.each([
  [count(2048), "2,048"],
  [plural(1, "message"), "1 message"],
  [plural(1200, "token"), "1,200 tokens"],
  [fileSize(98_362_432), "98 MB"],
  [fileSize(1_066_000_000), "1.1 GB"],
  [fileSize(5_300), "5 kB"],
  [parameters(134_515_008), "135M"],
  [parameters(1_235_814_432), "1.2B"],
  [speed(231.4), "231 tokens/s"],
  [speed(7.25), "7.3 tokens/s"],
  [seconds(0.041), "0.04 s"],
  [seconds(1.26), "1.3 s"],
  [seconds(12.4), "12 s"],
  [percent(0.434), "43 %"],
  [percent(7), "100 %"],
])("reads as a person would write it: %s", (shown, expected) => {
  expect(shown).toBe(expected);
});

const now = new Date(2026, 10, 21, 9, 30).getTime();
test.each([
  [new Date(2026, 10, 21, 0, 1), "Today"],
  [new Date(2026, 10, 22, 0, 1), "Today"],
  [new Date(2026, 10, 20, 23, 59), "Yesterday"],
  [new Date(2026, 10, 15, 12, 0), "This week"],
  [new Date(2026, 10, 14, 12, 0), "This month"],
  [new Date(2026, 9, 1, 12, 0), "October 2026"],
])("%s stands under %s", (time, group) => {
  expect(dayGroup(time.getTime(), now)).toBe(group);
});
