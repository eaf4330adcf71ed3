import assert from "node:assert/strict";
import {
  cycles,
  dependencyProblems,
  importGraph,
  nameProblems,
  shaderProblems,
  sizeProblems,
  tidyProblems,
  wordProblems,
} from "./tidy.ts";

/** Runs `body` in a folder of the given files. */
async function withProject(
  files: Record<string, string>,
  body: (root: string) => Promise<void>,
): Promise<void> {
  const root = `${await Deno.realPath(await Deno.makeTempDir())}/`;
  try {
    for (const [path, text] of Object.entries(files)) {
      await Deno.mkdir(root + path.split("/").slice(0, -1).join("/"), { recursive: true });
      await Deno.writeTextFile(root + path, text);
    }
    await body(root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("sizes: 400 lines of TypeScript and 200 of WGSL pass, one more does not", () => {
  const count = (path: string, lines: number) => sizeProblems({ path, text: "a\n".repeat(lines) }).length;
  assert.deepEqual([count("core/a.ts", 400), count("core/a.ts", 401)], [0, 1]);
  assert.deepEqual([count("kernels/a.wgsl", 200), count("kernels/a.wgsl", 201)], [0, 1]);
  assert.equal(count("docs/a.md", 1000), 0);
});

Deno.test("names: snake_case below the root, the tools' own names in it", () => {
  const count = (path: string) => nameProblems({ path, text: null }).length;
  assert.equal(count("README.md"), 0);
  assert.equal(count("core/run_id.ts"), 0);
  assert.equal(count("kernels/rms_norm/rms_norm_forward.wgsl"), 0);
  assert.equal(count("tests/llama_cpp/package-lock.json"), 0);
  assert.equal(count("core/runId.ts"), 1);
  assert.equal(count("docs/user-guide.md"), 1);
  assert.equal(count("Core/run_id.ts"), 1);
});

const SHADER = `// Scales a vector.
//
//   y[n] = a · x[n]
//
//   params  rows N, factor a
//   x       [N] f32  in
//   y       [N] f32  out

struct Params { rows: u32, a: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
var<workgroup> tile: array<f32, 4>;

@compute @workgroup_size(64)
fn main() {}
`;

Deno.test("shaders: the header has a formula and a line for every buffer", () => {
  const problems = (text: string) => shaderProblems({ path: "kernels/scale/scale.wgsl", text });
  assert.deepEqual(problems(SHADER), []);
  assert.deepEqual(problems(SHADER.replace(/\/\/ +x .*\n/, "")), [
    "kernels/scale/scale.wgsl: the header has no line for the buffer x",
  ]);
  assert.deepEqual(problems(SHADER.replace(/\/\/ +y\[n\].*\n/, "")), [
    "kernels/scale/scale.wgsl: the header has no formula",
  ]);
  assert.equal(problems(SHADER.replaceAll(/\/\/.*\n/g, "")).length, 5);
  const part = SHADER.replace(/\/\/ +y\[n\].*\n/, "").replace("@compute", "");
  assert.deepEqual(problems(part), []);
});

Deno.test("words: markers of unfinished work and paths of one machine are named with their line", () => {
  const problems = (text: string) => wordProblems({ path: "core/a.ts", text });
  assert.deepEqual(problems(`ok\n// ${"TO" + "DO"}: later`), [
    `core/a.ts:2: ${"TO" + "DO"} may not appear: finish it, or write an issue`,
  ]);
  assert.equal(problems(`const a = "${"/wo" + "rk/main/x"}";`).length, 1);
  assert.equal(problems(`const a = "${"../sha" + "red/data/x"}";`).length, 1);
  assert.deepEqual(problems(`import a from "../shared/pcg4d.wgsl" with { type: "text" };`), []);
  assert.deepEqual(problems(`the container mounts /work and /tmp`), []);
});

Deno.test("dependencies: pinned, and each with its decision", () => {
  const decisions = "# Packages\n\n## zod\n\nSchemas.\n\n## preact, @preact/signals\n\nDraws.\n";
  assert.deepEqual(dependencyProblems({ zod: "npm:zod@4.6.7" }, decisions), []);
  assert.deepEqual(dependencyProblems({ "@preact/signals": "npm:@preact/signals@2.11.4" }, decisions), []);
  assert.equal(dependencyProblems({ zod: "npm:zod@^4.6.7" }, decisions).length, 1);
  assert.deepEqual(dependencyProblems({ hono: "npm:hono@4.0.0" }, decisions), [
    "deno.json: hono has no section in docs/decisions/packages.md",
  ]);
});

Deno.test("cycles: found through any number of files, and a diamond is not one", () => {
  assert.deepEqual(cycles(new Map([["a", ["b", "c"]], ["b", ["d"]], ["c", ["d"]], ["d", []]])), []);
  assert.deepEqual(cycles(new Map([["a", ["b"]], ["b", ["c"]], ["c", ["a"]]])), ["a → b → c → a"]);
  assert.deepEqual(cycles(new Map([["a", ["a"]]])), ["a → a"]);
});

Deno.test({
  name: "the import graph sees values, types and text, and a project with a cycle is not tidy",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    await withProject({
      "deno.json": `{"imports": {}}`,
      "core/a.ts": `import { b } from "./b.ts";\nexport const a = b;\nexport type A = number;\n`,
      "core/b.ts": `import type { A } from "./a.ts";\nimport text from "./t.wgsl" with { type: "text" };\n` +
        `export const b: A = text.length;\n`,
      "core/t.wgsl": "// y = 1\n",
    }, async (root) => {
      const graph = await importGraph(root, ["core/a.ts", "core/b.ts"]);
      assert.deepEqual(graph.get("core/a.ts"), ["core/b.ts"]);
      assert.deepEqual(graph.get("core/b.ts"), ["core/a.ts", "core/t.wgsl"]);
      assert.deepEqual(await tidyProblems(root), ["Import cycle: core/a.ts → core/b.ts → core/a.ts"]);
    });
  },
});

Deno.test("an export that another room uses without a docstring is a problem of the project", async () => {
  const files = { "deno.json": '{"imports":{}}', "core/a.ts": "export const A = 1;\n" };
  await withProject({ ...files, "runs/b.ts": 'import { A } from "../core/a.ts";\nA;\n' }, async (root) => {
    assert.deepEqual(await tidyProblems(root), ["core/a.ts: A has no docstring, and another room uses it"]);
  });
});
