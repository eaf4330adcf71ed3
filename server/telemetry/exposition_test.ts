import assert from "node:assert/strict";
import { Counter, exposition, Histogram } from "./exposition.ts";
import { readExposition } from "./exposition_testing.ts";

Deno.test("metrics have the text of Prometheus' format, with escapes and every kind of number", () => {
  const value = 'C:\\dir "x"\nnext', counter = new Counter(), histogram = new Histogram([0.1, 2]);
  counter.add({ path: value }, 2);
  counter.add({ path: value });
  counter.add({ path: "" });
  for (const seconds of [0.1, 0.05, 1, 5]) histogram.add(seconds);
  const text = exposition([
    { name: "a_total", type: "counter", help: "With \\ and\nline.", samples: counter.samples() },
    { name: "b_seconds", type: "histogram", help: "Times.", samples: histogram.samples({ route: "/x" }) },
    {
      name: "c",
      type: "gauge",
      help: "Numbers.",
      samples: [1e21, 1e-7, -1.5, NaN, Infinity, -Infinity].map((n, i) => ({
        value: n,
        labels: { i: String(i) },
      })),
    },
    { name: "d", type: "gauge", help: "None.", samples: [] },
  ]);
  // The format's own documentation has these forms.
  assert.equal(
    text,
    String.raw`# HELP a_total With \\ and\nline.
# TYPE a_total counter
a_total{path="C:\\dir \"x\"\nnext"} 3
a_total{path=""} 1
# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{route="/x",le="0.1"} 2
b_seconds_bucket{route="/x",le="2"} 3
b_seconds_bucket{route="/x",le="+Inf"} 4
b_seconds_sum{route="/x"} 6.15
b_seconds_count{route="/x"} 4
# HELP c Numbers.
# TYPE c gauge
c{i="0"} 1e+21
c{i="1"} 1e-7
c{i="2"} -1.5
c{i="3"} NaN
c{i="4"} +Inf
c{i="5"} -Inf
# HELP d None.
# TYPE d gauge
`,
  );
  const families = readExposition(text);
  assert.deepEqual(families.get("a_total")!.samples[0], {
    name: "a_total",
    labels: { path: value },
    value: 3,
  });
});

Deno.test("the strict reader refuses what promtool refuses", () => {
  const head = "# HELP a A.\n# TYPE a gauge\n";
  const wrong = [
    "a 1\n",
    `${head}a 1`,
    `${head}a  1\n`,
    `${head}a 1\na 2\n`,
    `${head}b 1\n`,
    `${head}a{x=y} 1\n`,
    `${head}a{x="y",x="z"} 1\n`,
    `${head}a{x="\\q"} 1\n`,
    `${head}a Infinity\n`,
    `${head}${head}`,
    "# HELP a A.\na 1\n",
    "# HELP a A.\n# TYPE a counter\na 1\n",
    '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 1\na_sum 1\na_count 1\n',
    '# HELP a A.\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="+Inf"} 1\na_sum 1\na_count 1\n',
  ];
  for (const text of wrong) assert.throws(() => readExposition(text), assert.AssertionError, text);
  assert.equal(readExposition(`${head}a 1\n`).size, 1);
});
