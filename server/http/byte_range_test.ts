import assert from "node:assert/strict";
import { allowsRange, byteRange, namesEtag } from "./byte_range.ts";

Deno.test("a range is first to last, first to the end, or the last bytes", () => {
  const cases: [string, number, number][] = [
    ["bytes=0-0", 0, 1],
    ["bytes=0-9", 0, 10],
    ["bytes=0-99", 0, 10],
    ["bytes=3-", 3, 10],
    ["bytes=9-", 9, 10],
    ["bytes=-3", 7, 10],
    ["bytes=-99", 0, 10],
    ["BYTES= 2-4 ", 2, 5],
    ["bytes=0-9999999999999999", 0, 10],
    [`bytes=0-${"9".repeat(400)}`, 0, 10],
    [`bytes=-${"9".repeat(400)}`, 0, 10],
  ];
  for (const [header, start, end] of cases) assert.deepEqual(byteRange(header, 10), { start, end }, header);
});

Deno.test("a range that is malformed, unsatisfiable or of several parts is ignored", () => {
  const headers = [
    "",
    "bytes",
    "bytes=",
    "bytes=-",
    "bytes=-0",
    "bytes=10-",
    "bytes=10-12",
    "bytes=5-4",
    "bytes=1-2,4-5",
  ];
  headers.push(
    "bytes=a-b",
    "bytes=+1-2",
    "bytes=1.0-2",
    "lines=0-1",
    "bytes=0-1,",
    "bytes=0--1",
    `bytes=${"9".repeat(400)}-`,
  );
  for (const header of headers) assert.equal(byteRange(header, 10), null, header);
  assert.equal(byteRange(null, 10), null);
  for (const header of ["bytes=0-", "bytes=0-0", "bytes=-1"]) {
    assert.equal(byteRange(header, 0), null, header);
  }
});

Deno.test("If-None-Match compares weakly with each of its tags", () => {
  for (const header of ['"a"', 'W/"a"', '"b", "a"', '"b",W/"a"', "*", ' "a" ']) {
    assert.ok(namesEtag(header, '"a"'), header);
  }
  for (const header of [null, "", "a", '"b"', 'W/"b"', '"a', '"A"']) {
    assert.ok(!namesEtag(header, '"a"'), `${header}`);
  }
});

Deno.test("If-Range compares strongly", () => {
  for (const header of [null, '"a"']) assert.ok(allowsRange(header, '"a"'));
  for (const header of ['W/"a"', '"b"', "a", "Thu, 01 Jan 2026 00:00:00 GMT", "*"]) {
    assert.ok(!allowsRange(header, '"a"'));
  }
});
