import assert from "node:assert/strict";
import { textPlot } from "./text_plot.ts";

Deno.test("a rising curve runs from the lower left to the upper right", () => {
  const lines = textPlot("reward", [0, 1, 2, 3, 4, 5, 6, 7]).split("\n");
  assert.deepEqual(lines, [
    "reward",
    "   7.000 |       *",
    "         |      *",
    "         |     *",
    "         |    *",
    "         |   *",
    "         |  *",
    "         | *",
    "   0.000 |*",
    "         +--------",
    "          1      8",
  ]);
});

Deno.test("equal values are one row, a gap stays empty, no values give no plot", () => {
  assert.deepEqual(textPlot("r", [0.5, NaN, 0.5]).split("\n"), [
    "r",
    "   0.500 |* *",
    "         +---",
    "          1 3",
  ]);
  assert.equal(textPlot("r", []), "");
  assert.equal(textPlot("r", [NaN]), "");
});

Deno.test("more values than columns are averaged", () => {
  const lines = textPlot("r", Array.from({ length: 600 }, (_, i) => Math.floor(i / 10))).split("\n");
  assert.ok(lines.every((line) => line.length <= 70));
  assert.ok(lines[1]!.startsWith("  59.000 |") && lines[1]!.endsWith("*"));
  assert.equal(lines.slice(1, 9).join("").split("*").length - 1, 60);
});
