import { afterEach, expect, test } from "vitest";
import {
  count,
  dayGroup,
  duration,
  fileSize,
  learningRate,
  list,
  listWithAnd,
  loss,
  moment,
  parameters,
  percent,
  precise,
  scaled,
  seconds,
  sentences,
  speed,
} from "../../src/lib/text/format";
import { language } from "../../src/lib/text/language.svelte";

afterEach(() => language.choose("en"));

test.each([
  [count(2048), "2,048"],
  [parameters(79_360), "79K"],
  [parameters(999_600), "1M"],
  [parameters(134_515_008), "135M"],
  [parameters(1_235_814_432), "1.2B"],
  [parameters(999_885_952), "1B"],
  [speed(231.4), "231 tokens/s"],
  [speed(7.25), "7.3 tokens/s"],
  [seconds(0.041), "0.04 s"],
  [seconds(1.26), "1.3 s"],
  [seconds(12.4), "12 s"],
  [duration(-3), "0 s"],
  [duration(59.4), "59 s"],
  [duration(59.6), "1 min"],
  [duration(190), "3 min 10 s"],
  [duration(2000), "33 min"],
  [duration(3599), "1 h"],
  [duration(3600), "1 h"],
  [duration(7520), "2 h 5 min"],
  [loss(1.4249), "1.42"],
  [loss(0.0837), "0.084"],
  [loss(0.999), "1.00"],
  [loss(18.21), "18.2"],
  [loss(Number.NaN), "NaN"],
  [loss(null), "NaN"],
  [learningRate(2e-4), "2e-4"],
  [learningRate(1.7349e-5), "1.73e-5"],
  [moment(new Date(2026, 10, 21, 8, 5).getTime(), new Date(2026, 10, 21, 9).getTime()), "Today, 08:05"],
  [moment(new Date(2026, 10, 3, 8, 5).getTime(), new Date(2026, 10, 21, 9).getTime()), "3 Nov 2026"],
  [percent(0.434), "43 %"],
  [percent(7), "100 %"],
])("formats as %s", (shown, expected) => {
  expect(shown).toBe(expected);
});

// The same table as in crates/formats/src/byte_size.rs.
test.each([
  [0, "0 B"],
  [999, "999 B"],
  [1000, "1 kB"],
  [1250, "1.3 kB"],
  [1536, "1.5 kB"],
  [9_949, "9.9 kB"],
  [9_950, "10 kB"],
  [999_499, "999 kB"],
  [999_500, "1 MB"],
  [999_950, "1 MB"],
  [98_362_432, "98 MB"],
  [999_499_999, "999 MB"],
  [999_500_000, "1 GB"],
  [16_384_000_000, "16.4 GB"],
  [999_949_999_999, "999.9 GB"],
  [999_950_000_000, "1 TB"],
])("%d bytes are %s", (bytes, size) => {
  expect(fileSize(bytes)).toBe(size);
});

const now = new Date(2026, 10, 21, 9, 30).getTime();
test.each([
  [new Date(2026, 10, 21, 0, 1), "Today"],
  [new Date(2026, 10, 22, 0, 1), "Today"],
  [new Date(2026, 10, 20, 23, 59), "Yesterday"],
  [new Date(2026, 10, 15, 12, 0), "This week"],
  [new Date(2026, 10, 14, 12, 0), "This month"],
  [new Date(2026, 9, 1, 12, 0), "October 2026"],
])("%s is grouped under %s", (time, group) => {
  expect(dayGroup(time.getTime(), now)).toBe(group);
});

test.each([
  [0, "0 k"],
  [430e6, "430 M"],
  [999.6e6, "1 G"],
  [9.94e9, "9.9 G"],
  [9.96e9, "10 G"],
  [1.93e12, "1.9 T"],
  [41.2e12, "41 T"],
  [2.5e15, "2,500 T"],
])("%s scaled is %s", (n, text) => {
  expect(scaled(n)).toBe(text);
});

test.each([
  ["en", "3 min 10 s", "0.05", "a, b, c", "a, b and c", "A. B."],
  ["de", "3 min 10 s", "0,05", "a, b, c", "a, b und c", "A. B."],
  ["es", "3 min 10 s", "0,05", "a, b, c", "a, b y c", "A. B."],
  ["zh-CN", "3 分 10 秒", "0.05", "a、b、c", "a、b 和 c", "A.B."],
])("times, numbers, lists and sentences in %s", (locale, ...expected) => {
  language.choose(locale);
  const letters = ["a", "b", "c"];
  expect([duration(190), precise(0.05), list(letters), listWithAnd(letters), sentences(["A.", "B."])]).toEqual(
    expected,
  );
});

test("numbers that are settings have four digits at most and no groups, and lists may be short", () => {
  expect([
    precise(1024),
    precise(1.23456),
    precise(-0.5),
    list([]),
    list(["a"]),
    listWithAnd([]),
    listWithAnd(["a"]),
    listWithAnd(["a", "b"]),
  ]).toEqual(["1024", "1.235", "-0.5", "", "a", "", "a", "a and b"]);
});
