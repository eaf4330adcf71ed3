import assert from "node:assert/strict";
import {
  bytesText,
  countText,
  durationText,
  exactText,
  exactTimeText,
  millisecondsText,
  numberText,
  secondText,
} from "./format.ts";
import { sparklinePath } from "./sparkline.tsx";

Deno.test("sizes, numbers and times are read by people", () => {
  assert.deepEqual([0, 1023, 1536, 1.5 * 2 ** 30, 200 * 2 ** 20].map(bytesText), [
    ...["0 B", "1023 B", "1.5 KiB", "1.5 GiB", "200 MiB"],
  ]);
  assert.deepEqual([0, -0.123456, 1234.5678, 12345.678, -1e-5, 3e8, null, NaN].map(numberText), [
    ...["0", "−0.1235", "1,235", "12,350", "−1.00e-5", "3.00e+8", "–", "–"],
  ]);
  assert.deepEqual([999, 3_412_000, 7_612_345_678].map(countText), ["999", "3.41M", "7.61B"]);
  const exact = [-2.384185791015625e-7, Math.exp(-2.384185791015625e-7), -0, 123456.75, null];
  assert.deepEqual(exact.map(exactText), [
    ...["−2.384185791015625e-7", "0.9999997615814493", "0", "123456.75", "–"],
  ]);
  assert.deepEqual([0.4, 59.4, 60, 249, 3849, 97_200, null].map(durationText), [
    ...["0 s", "59 s", "1:00", "4:09", "1:04:09", "1 d 3 h", "–"],
  ]);
  assert.deepEqual([0, 0.412, 22.4, 999.4, 1187, 59_949, 249_000].map(millisecondsText), [
    ...["0 ms", "0.41 ms", "22 ms", "999 ms", "1.19 s", "59.9 s", "4:09"],
  ]);
});

Deno.test("a time of today has its second, and another one its date too", () => {
  const time = new Date(2026, 10, 23, 14, 5, 7), noon = new Date(2026, 10, 23, 12);
  assert.match(secondText(time.toISOString(), noon), /^\D*\d+:05:07/);
  assert.match(secondText(time.toISOString(), new Date(2026, 10, 24)), /23.*2026.*:05:07/);
  assert.match(exactTimeText(time.toISOString()), /23.*2026.*:05:07/);
});

Deno.test("a sparkline spans its box, also when all values are equal", () => {
  assert.equal(sparklinePath([1, 3, 2]), "M2.0 22.0L48.0 2.0L94.0 12.0");
  assert.equal(sparklinePath([5, 5]), "M2.0 22.0L94.0 22.0");
  assert.equal(sparklinePath([1]), "M46 12h4");
  assert.equal(sparklinePath([]), "");
});
