/** Reads Prometheus text as strictly as `promtool check metrics` does. */

import assert from "node:assert/strict";

export interface ReadSample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

interface ReadFamily {
  type: string;
  samples: ReadSample[];
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const LABEL = '([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\\\\n]|\\\\[\\\\"n])*)"';
const SAMPLE = new RegExp(
  `^(${NAME})(?:\\{(${LABEL}(?:,${LABEL})*)\\})? (-?[0-9.]+(?:e[+-]?[0-9]+)?|NaN|[+-]Inf)$`,
);

function unescape(text: string): string {
  return text.replace(/\\(.)/g, (_, char) => char === "n" ? "\n" : char);
}

function readNumber(text: string): number {
  if (text === "+Inf") return Infinity;
  return text === "-Inf" ? -Infinity : Number(text);
}

function readSample(line: string): ReadSample {
  const match = SAMPLE.exec(line);
  assert.ok(match, `${line} is no sample`);
  const pairs = [...(match[2] ?? "").matchAll(new RegExp(LABEL, "g"))].map(([, name, value]) =>
    [name!, unescape(value!)] as const
  );
  const labels = Object.fromEntries(pairs);
  assert.equal(Object.keys(labels).length, pairs.length, `${line} has a label twice`);
  return { name: match[1]!, labels, value: readNumber(match.at(-1)!) };
}

/** Checks the buckets of one histogram: rising limits and counts, the last one infinite and equal to the count. */
function checkHistogram(name: string, samples: readonly ReadSample[]): void {
  const series = Map.groupBy(samples, ({ labels: { le: _, ...labels } }) => JSON.stringify(labels));
  for (const [key, all] of series) {
    const buckets = all.filter((sample) => sample.name === `${name}_bucket`);
    const limits = buckets.map(({ labels }) => readNumber(labels.le!)),
      counts = buckets.map(({ value }) => value);
    const [count, sum] = ["_count", "_sum"].map((suffix) =>
      all.filter((sample) => sample.name === name + suffix)
    );
    assert.deepEqual([count!.length, sum!.length], [1, 1], `${name}${key} has one count and one sum`);
    assert.equal(all.length, buckets.length + 2, `${name}${key} has nothing else`);
    assert.deepEqual(limits, [...new Set(limits)].sort((a, b) => a - b));
    assert.deepEqual(counts, counts.toSorted((a, b) => a - b));
    assert.equal(limits.at(-1), Infinity);
    assert.equal(counts.at(-1), count![0]!.value);
  }
}

/**
 * Reads Prometheus text. Each metric must have HELP, TYPE and samples in this order and once, its samples distinct
 * labels, a counter the suffix `_total`.
 *
 * @throws {AssertionError} At the first thing that the format does not allow.
 */
export function readExposition(text: string): Map<string, ReadFamily> {
  assert.ok(text.endsWith("\n"), "the last line ends");
  const families = new Map<string, ReadFamily>();
  let name = "", expected: "HELP" | "TYPE" | "samples" = "HELP";
  for (const line of text.slice(0, -1).split("\n")) {
    const [, kind, of, rest] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") {
      assert.notEqual(expected, "TYPE", `${name} has a TYPE`);
      assert.match(of!, new RegExp(`^${NAME}$`));
      assert.ok(!families.has(of!), `${of} comes once`);
      assert.match(rest!, /^(?:[^\\]|\\\\|\\n)+$/);
      [name, expected] = [of!, "TYPE"];
    } else if (kind === "TYPE") {
      assert.deepEqual([expected, of], ["TYPE", name]);
      assert.ok(["counter", "gauge", "histogram"].includes(rest!), `${rest} is a type`);
      assert.equal(name.endsWith("_total"), rest === "counter", `${name} is named by its type`);
      families.set(name, { type: rest!, samples: [] });
      expected = "samples";
    } else {
      assert.equal(expected, "samples", `${line} has HELP and TYPE`);
      const sample = readSample(line), { type, samples } = families.get(name)!;
      const suffixes = type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
      assert.ok(
        suffixes.some((suffix) => sample.name === name + suffix),
        `${sample.name} belongs to ${name}`,
      );
      samples.push(sample);
    }
  }
  assert.notEqual(expected, "TYPE", `${name} has a TYPE`);
  for (const [of, { type, samples }] of families) {
    const keys = samples.map((sample) => JSON.stringify([sample.name, Object.entries(sample.labels).sort()]));
    assert.equal(new Set(keys).size, keys.length, `the samples of ${of} differ in their labels`);
    if (type === "histogram") checkHistogram(of, samples);
    if (type === "counter") assert.ok(samples.every(({ value }) => value >= 0));
  }
  return families;
}
