import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import plugin, { importProblem } from "./lint_rooms.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The rules that a source violates, in order. */
function broken(path: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, ROOT + path, source).map((diagnostic) => diagnostic.id);
}

Deno.test("every room imports only its own files and those of its table row", () => {
  const targets = {
    core: "core/errors.ts",
    config: "config/sections/run.ts",
    data: "data/scenario.ts",
    kernels: "kernels/device.ts",
    tokenizer: "trainer/tokenizer/tokenizer.ts",
    formats: "trainer/formats/gguf.ts",
    protocol: "trainer/protocol/protocol.ts",
    plan_memory: "trainer/engine/plan_memory.ts",
    packing: "trainer/learning/packing.ts",
    engine: "trainer/engine/engine.ts",
    model: "trainer/model/transformer.ts",
    agent: "agent/rollout/episode.ts",
    runs: "runs/record/event.ts",
    server: "server/app.ts",
    cli: "cli/doctor.ts",
    api: "api/schema.d.ts",
    scripts: "scripts/tidy.ts",
    tests: "tests/helpers.ts",
    entry: "cli.ts",
  };
  const doors = ["tokenizer", "formats", "protocol"], plan = ["plan_memory", "packing"];
  const all = Object.keys(targets);
  const inner = all.filter((to) => !["scripts", "tests", "entry"].includes(to));
  const table: Record<string, string[]> = {
    "core/x.ts": ["core"],
    "config/check/x.ts": ["core", "config"],
    "data/x.ts": ["core", "config", "data"],
    "kernels/x.ts": ["core", "kernels"],
    "trainer/engine/x.ts": ["core", "config", "kernels", ...doors, ...plan, "engine", "model"],
    "agent/results/x.ts": ["core", "config", "data", ...doors, "agent"],
    "runs/process/x.ts": ["core", "config", "data", ...doors, ...plan, "agent", "runs"],
    "server/listen/x.ts": ["core", "config", "runs", "server"],
    "api/x.ts": ["api"],
    "cli/x.ts": inner,
    "main.ts": all,
    "cli.ts": all,
    "scripts/x.ts": all,
    "tests/x.ts": all,
  };
  for (const [from, expected] of Object.entries(table)) {
    const allowed = Object.entries(targets).filter(([, to]) => importProblem(from, to) === null);
    assert.deepEqual(allowed.map(([name]) => name).sort(), [...expected].sort(), from);
  }
});

Deno.test("a test beside the code also sees tests/ and the scripted engine, and nothing more", () => {
  assert.equal(importProblem("agent/rollout/group_test.ts", "trainer/engine/scripted_engine_fake.ts"), null);
  assert.equal(importProblem("agent/rollout/group_test.ts", "tests/temporary.ts"), null);
  assert.match(importProblem("agent/rollout/group.ts", "tests/temporary.ts")!, /may not import/);
  assert.match(importProblem("agent/rollout/group_test.ts", "trainer/engine/engine.ts")!, /may not import/);
  assert.match(importProblem("kernels/rope/rope_test.ts", "trainer/model/transformer.ts")!, /may not import/);
});

Deno.test("a file whose name starts like a door's is not a door", () => {
  assert.match(importProblem("runs/process/x.ts", "trainer/engine/inspect_model.ts.bak")!, /may not import/);
  assert.match(importProblem("agent/x.ts", "trainer/formatters/x.ts")!, /may not import/);
});

Deno.test("a file imports only from its own floor and lower ones", () => {
  assert.equal(importProblem("runs/process/x.ts", "runs/record/run.ts"), null);
  assert.equal(importProblem("runs/algorithms/sft/x.ts", "runs/algorithms/algorithm.ts"), null);
  assert.match(
    importProblem("runs/record/x.ts", "runs/process/x.ts")!,
    /lies on a floor above$/,
  );
  assert.equal(importProblem("trainer/model/x.ts", "trainer/protocol/protocol.ts"), null);
  assert.match(importProblem("trainer/model/x.ts", "trainer/engine/engine.ts")!, /on a floor above/);
  assert.match(importProblem("trainer/protocol/x.ts", "trainer/formats/gguf.ts")!, /on a floor above/);
  assert.match(importProblem("runs/x.ts", "runs/record/x.ts")!, /runs\/x\.ts lies on no floor of runs\//);
  assert.match(importProblem("runs/attic/x.ts", "runs/record/x.ts")!, /lies on no floor/);
  for (const test of ["runs/record/x_test.ts", "runs/run_fake.ts", "runs/session/worker_fake.ts"]) {
    assert.equal(importProblem(test, "runs/process/x.ts"), null, test);
  }
});

Deno.test("an entry of a registry imports what lies above it, and only the registry imports an entry", () => {
  const [sft, registry] = ["runs/algorithms/sft/definition.ts", "runs/algorithms/registry.ts"];
  assert.equal(importProblem(sft, "runs/algorithms/definition.ts"), null);
  assert.equal(importProblem(sft, "runs/algorithms/sft/sft.ts"), null);
  assert.equal(importProblem(registry, sft), null);
  assert.equal(importProblem("runs/process/x.ts", registry), null);
  assert.equal(importProblem("runs/process/x_test.ts", sft), null);
  assert.match(importProblem(sft, registry)!, /which imports it/);
  for (const from of ["runs/algorithms/epochs.ts", "runs/algorithms/preference/x.ts", "runs/plan/x.ts"]) {
    assert.match(importProblem(from, sft)!, /only runs\/algorithms\/registry\.ts imports it/, from);
  }
  // A folder beside the entries with parts that they share.
  const shared = "runs/algorithms/rollouts/x.ts";
  assert.equal(importProblem("runs/algorithms/agent_grpo/x.ts", shared), null);
  assert.equal(importProblem(shared, "runs/algorithms/algorithm.ts"), null);
  assert.match(importProblem(shared, registry)!, /which imports it/);
  assert.match(importProblem(shared, sft)!, /only runs\/algorithms\/registry\.ts imports it/);
  assert.match(importProblem("runs/plan/x.ts", shared)!, /only runs\/algorithms\/ imports it/);
  // Each file of this folder is an entry.
  assert.equal(importProblem("trainer/tokenizer/read_tokenizer.ts", "trainer/tokenizer/kinds/bpe.ts"), null);
  assert.equal(importProblem("trainer/tokenizer/kinds/bpe.ts", "trainer/tokenizer/bpe/merges.ts"), null);
  assert.match(
    importProblem("trainer/tokenizer/kinds/spm.ts", "trainer/tokenizer/kinds/bpe.ts")!,
    /only .*read_tokenizer/,
  );
  assert.match(importProblem("cli/x.ts", "agent/tools/builtin/files.ts")!, /only .*toolsets/);
  const formats = "trainer/tokenizer/tool_calls";
  assert.equal(importProblem("runs/chat/turn_text.ts", `${formats}/registry.ts`), null);
  assert.match(importProblem("runs/chat/turn_text.ts", `${formats}/hermes.ts`)!, /registry\.ts in its place/);
  assert.match(importProblem(`${formats}/hermes.ts`, `${formats}/registry.ts`)!, /which imports it/);
  // This registry lies beside its entries.
  const architectures = "trainer/model/architectures";
  assert.equal(importProblem("trainer/model/x.ts", `${architectures}/registry.ts`), null);
  assert.equal(importProblem(`${architectures}/qwen2.ts`, `${architectures}/decoder.ts`), null);
  assert.match(
    importProblem("trainer/model/x.ts", `${architectures}/llama.ts`)!,
    /registry\.ts in its place/,
  );
});

Deno.test("a folder below a floor has a line that says who imports it", () => {
  assert.match(importProblem("server/routes/x.ts", "server/http/html/x.ts")!, /add its folder to NESTED/);
});

Deno.test("operations of kernels/ import the room's own files, weight types and the operations with a floor", () => {
  for (const from of ["kernels/matmul/x.ts", "kernels/new_operation/x.ts"]) {
    for (const to of ["kernels/tensor.ts", "kernels/weights/table.ts", "kernels/attention/visibility.ts"]) {
      assert.equal(importProblem(from, to), null, `${from} ${to}`);
    }
  }
  assert.equal(importProblem("kernels/rows/x.ts", "kernels/rows/fill.wgsl"), null);
  assert.match(importProblem("kernels/rows/x.ts", "kernels/rope/rope.ts")!, /give that folder a floor/);
  assert.match(importProblem("kernels/x.ts", "kernels/weights/table.ts")!, /on a floor above/);
  assert.match(importProblem("kernels/webgpu/x.ts", "kernels/device.ts")!, /on a floor above/);
  assert.match(importProblem("kernels/weights/x.ts", "kernels/matmul/matmul.ts")!, /on a floor above/);
  assert.equal(importProblem("kernels/rope/rope_cases.ts", "kernels/rows/rows.ts"), null);
});

Deno.test("product code imports no fake, no contract suite and no test helper of any room", () => {
  const helpers = ["kernels/x_testing.ts", "kernels/rope/rope_cases.ts", "kernels/rope/rope_reference.ts"];
  for (const helper of [...helpers, "kernels/x_fake.ts", "kernels/x_contract.ts", "kernels/x_test.ts"]) {
    for (const product of ["kernels/rope/rope.ts", "trainer/model/x.ts", "cli/x.ts", "main.ts"]) {
      assert.match(importProblem(product, helper)!, /is no test: it may not import/, `${product} ${helper}`);
    }
    for (const test of ["kernels/x_test.ts", "kernels/y_fake.ts", "scripts/bench.ts", "tests/x.ts"]) {
      assert.equal(importProblem(test, helper), null, `${test} ${helper}`);
    }
  }
});

Deno.test("an unknown folder is not a room, and nothing is imported from outside the project", () => {
  assert.match(importProblem("attic/x.ts", "core/ids.ts")!, /is no room/);
  assert.match(importProblem("tests/x.ts", "../elsewhere/x.ts")!, /outside the project/);
});

Deno.test("imports: every form of import is seen, and packages come through deno.json", () => {
  const report = (source: string) => broken("data/x.ts", source);
  assert.deepEqual(report(`import { a } from "../kernels/a.ts";\na();`), ["rooms/imports"]);
  assert.deepEqual(report(`import type { A } from "../agent/a.ts";\nexport type B = A;`), ["rooms/imports"]);
  assert.deepEqual(report(`export { a } from "../runs/a.ts";`), ["rooms/no-barrels", "rooms/imports"]);
  assert.deepEqual(report(`await import("../server/a.ts");`), ["rooms/imports"]);
  assert.deepEqual(report(`import text from "../kernels/a.wgsl" with { type: "text" };\ntext;`), [
    "rooms/imports",
  ]);
  assert.deepEqual(report(`import { z } from "npm:zod@4";\nz;`), ["rooms/imports"]);
  assert.deepEqual(report(`import { z } from "https://example.com/zod.ts";\nz;`), ["rooms/imports"]);
  const fine =
    `import { z } from "zod";\nimport { a } from "../core/a.ts";\nimport { b } from "./b.ts";\nz(a, b);`;
  assert.deepEqual(report(fine), []);
});

Deno.test("no-barrels: a file exports only its own names", () => {
  assert.deepEqual(broken("core/mod.ts", "export const a = 1;"), ["rooms/no-barrels"]);
  assert.deepEqual(broken("core/index.ts", "export const a = 1;"), ["rooms/no-barrels"]);
  assert.deepEqual(broken("core/all.ts", `export * from "./ids.ts";`), ["rooms/no-barrels"]);
  assert.deepEqual(broken("core/models.ts", "export const a = 1;"), []);
  const from = 'from "./ids.ts";', use = `import { a, type B } ${from}\n`;
  const passed = [`export { a } ${from}`, `export type { B } ${from}`, `export { a };\n${use}`];
  for (const source of passed) assert.deepEqual(broken("core/x.ts", source), ["rooms/no-barrels"], source);
  const own = [`${use}export const c = a;`, "const c = 1;\nexport { c };"];
  for (const source of own) assert.deepEqual(broken("core/x.ts", source), [], source);
});

Deno.test("file-names: snake_case in every part of the path", () => {
  assert.deepEqual(broken("core/runId.ts", ""), ["rooms/file-names"]);
  assert.deepEqual(broken("core/run-id.ts", ""), ["rooms/file-names"]);
  assert.deepEqual(broken("core/RunParts/run_id.ts", ""), ["rooms/file-names"]);
  assert.deepEqual(broken("kernels/rms_norm/rms_norm_test.ts", ""), []);
  assert.deepEqual(broken("api/schema.d.ts", ""), []);
});

Deno.test("webgpu-provider: one file takes the runtime's WebGPU", () => {
  for (const use of ["navigator.gpu", "globalThis.navigator.gpu", 'navigator["gpu"]', "navigator?.gpu"]) {
    assert.deepEqual(
      broken("kernels/device.ts", `f(${use}.requestAdapter());`),
      ["rooms/webgpu-provider"],
      use,
    );
  }
  assert.deepEqual(broken("scripts/x.ts", "const { gpu } = navigator;\ngpu.x();"), ["rooms/webgpu-provider"]);
  assert.deepEqual(broken("cli/x.ts", "f(navigator.hardwareConcurrency, provider.gpu());"), []);
  assert.deepEqual(broken("kernels/webgpu/deno_provider.ts", "f(navigator.gpu);"), []);
});

Deno.test("function-length: 70 lines pass and 71 do not", () => {
  const lines = (count: number) => `function f() {\n${"  f();\n".repeat(count - 2)}}\nf();`;
  assert.deepEqual(broken("core/x.ts", lines(70)), []);
  assert.deepEqual(broken("core/x.ts", lines(71)), ["rooms/function-length"]);
  assert.deepEqual(broken("core/x.ts", `const f = () => {\n${"  f();\n".repeat(69)}};`), [
    "rooms/function-length",
  ]);
});

Deno.test("max-parameters: three pass, four do not, except in numeric code", () => {
  assert.deepEqual(broken("core/x.ts", "export function f(a, b, c) { return a + b + c; }"), []);
  const four = "export function f(a, b, c, d) { return a + b + c + d; }";
  assert.deepEqual(broken("core/x.ts", four), ["rooms/max-parameters"]);
  assert.deepEqual(broken("core/x.ts", "class A { m(a, b, c, d) {} }"), ["rooms/max-parameters"]);
  assert.deepEqual(broken("core/x.ts", "export const f = (a, b, c, d) => a;"), ["rooms/max-parameters"]);
  assert.deepEqual(broken("core/x.ts", "export function f(this: A, a, b, c) { return a; }"), []);
  assert.deepEqual(broken("kernels/rope/rope.ts", four), []);
  assert.deepEqual(broken("trainer/model/x_reference.ts", four), []);
});
