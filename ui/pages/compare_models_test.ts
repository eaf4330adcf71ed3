import assert from "node:assert/strict";
import { baseOf, modelsOf } from "./compare_models.ts";

const run = (id: string, model: Record<string, unknown>) => ({ id, config: { model } });

Deno.test("each base is asked once, before the first of its runs", () => {
  const a = run("a", { path: "/m/x.gguf", kv: "f16" }), b = run("b", { path: "/m/x.gguf", kv: "f16" });
  const other = run("c", { path: "/m/x.gguf", kv: "f32" });
  assert.deepEqual(modelsOf([a, other, b]).map(({ run, has_adapter }) => `${run} ${has_adapter}`), [
    ...["a false", "a true", "c false", "c true", "b true"],
  ]);
  assert.equal(baseOf(a).key, baseOf(b).key);
  assert.equal(baseOf(a).name, "x.gguf");
});
