import assert from "node:assert/strict";
import { unroll } from "./unroll.ts";

Deno.test("a template is expanded in order, with nested loops", () => {
  const template =
    "a\n#for d D4\n  x{d} {D4}u\n  #for h 2\n    y{d}_{h}\n  #end\n#end\nb { return; } {unknown}";
  const expected = [
    "a",
    "  x0 2u",
    "    y0_0",
    "    y0_1",
    "  x1 2u",
    "    y1_0",
    "    y1_1",
    "b { return; } {unknown}",
  ];
  assert.equal(unroll(template, { D4: 2 }), expected.join("\n"));
});

Deno.test("names and integers in braces are evaluated", () => {
  const template = "#for j 3\ns{4*j+1} w{j/2} {j%2}u {N*4/8+j*2}\n#end\n{j} {N+M} {3}";
  assert.equal(unroll(template, { N: 6 }), "s1 w0 0u 3\ns5 w0 1u 5\ns9 w1 0u 7\n{j} {N+M} 3");
});

Deno.test("a template with an invalid directive is refused with its line", () => {
  assert.throws(() => unroll("#for d D4\nx", { D4: 1 }), /an #end for the #for of line 1/);
  assert.throws(() => unroll("x\n#end", {}), /a #for before the #end of line 2/);
  assert.throws(() => unroll("#for d D5\n#end", { D4: 1 }), /a count in line 1, not D5/);
  assert.throws(() => unroll("#for d\n#end", {}), /line 1, not #for d/);
});

Deno.test("a count of 0 leaves nothing, of what is inside either", () => {
  const text = unroll("a\n#for d D\nx{d}\n#for e 2\ny{e}\n#end\n#end\nb", { D: 0 });
  assert.equal(text, "a\nb");
});

Deno.test("a part is inserted, and its names are those of the place", () => {
  const parts = { sum: "x += {d}u;\n#for l 2\ny{d}_{l}\n#end\n" };
  const text = unroll("a\n  #for d D\n  #insert sum\n  #end\nb", { D: 2 }, parts);
  assert.deepEqual(text.split("\n"), ["a", "x += 0u;", "y0_0", "y0_1", "x += 1u;", "y1_0", "y1_1", "b"]);
  assert.throws(() => unroll("#insert other", {}, parts), /a part named other/);
});
