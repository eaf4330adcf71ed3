import assert from "node:assert/strict";
import { docstringProblems, doorProblems } from "./tidy_docstrings.ts";

const problems = (files: Record<string, string>) =>
  docstringProblems(Object.entries(files).map(([path, text]) => ({ path, text })));

const missing = (path: string, name: string) => [
  `${path}: ${name} has no docstring, and another room uses it`,
];

const user = (names: string) => ({ "runs/x.ts": `import ${names} from "../core/a.ts";\n` });

Deno.test("an export that another room imports has a docstring, whatever it is and however it is imported", () => {
  const declared = [
    "class A {}",
    "abstract class A {}",
    "interface A {}",
    "type A = 1;",
    "const A = 1;",
    "function A() {}",
    "async function A() {}",
    "function* A() {}",
    "async function* A() {}",
  ];
  for (const declaration of declared) {
    const text = `/** The file. */\n\nexport ${declaration}\n`;
    assert.deepEqual(
      problems({ ...user("{ A }"), "core/a.ts": text }),
      missing("core/a.ts", "A"),
      declaration,
    );
    const documented = text.replace("export", "/** Of A. */\nexport");
    assert.deepEqual(problems({ ...user("{ A }"), "core/a.ts": documented }), [], declaration);
  }
  for (const names of ["type { A }", "{ type A }", "{ A as B }", "{ B, A }", "{\n  B,\n  A,\n}"]) {
    assert.deepEqual(
      problems({ ...user(names), "core/a.ts": "\nexport const A = 1;" }),
      missing("core/a.ts", "A"),
    );
  }
});

Deno.test("an export directly after another one, or after a remark, needs a docstring of its own", () => {
  for (const before of ["/** Of B. */\nexport const B = 1;\n", "// A remark.\n"]) {
    const text = `${before}export const A = 1;\n`;
    assert.deepEqual(problems({ ...user("{ A, B }"), "core/a.ts": text }), missing("core/a.ts", "A"), before);
  }
});

Deno.test("exports that only their room, tests or scripts use need none", () => {
  const text = "\nexport const A = 1;\nexport const B = 2;\n";
  const using = (path: string) => ({ [path]: 'import { A } from "../core/a.ts";\n', "core/a.ts": text });
  assert.deepEqual(problems(using("runs/x.ts")).length, 1);
  for (const path of ["core/x.ts", "runs/x_test.ts", "runs/x_fake.ts", "scripts/x.ts", "tests/x.ts"]) {
    assert.deepEqual(problems(using(path)), [], path);
  }
});

const DOORS =
  "# House\n\n## Doors\n\nText.\n\n| `core/` | `A` (`a.ts`), `B` (`in/b.ts`) |\n\n## Other\n\n`C` (`c.ts`)\n";
const EXAMPLE = "/**\n * Of it.\n *\n * @example\n * ```ts\n * ```\n */\n";

const doors = (files: Record<string, string>) =>
  doorProblems(Object.entries(files).map(([path, text]) => ({ path, text })));

Deno.test("every door that ARCHITECTURE.md names has an example in its own docstring", () => {
  const a = `/** The file. */\n\n${EXAMPLE}export class A {}\n`;
  const b = `${EXAMPLE}export async function* B() {}\n`;
  const files = { "ARCHITECTURE.md": DOORS, "core/a.ts": a, "core/in/b.ts": b };
  assert.deepEqual(doors(files), []);
  const without = ["core/in/b.ts: the door B has no @example"];
  for (
    const text of [
      `${EXAMPLE}const C = 1;\n/** Of B. */\nexport function B() {}\n`,
      `${EXAMPLE}export const C = 1;\nexport const B = 1;\n`,
      `${EXAMPLE}export const BC = 1;\n`,
      "",
    ]
  ) assert.deepEqual(doors({ ...files, "core/in/b.ts": text }), without, text);
  assert.deepEqual(doors({ "ARCHITECTURE.md": DOORS, "core/a.ts": a }), without);
});

Deno.test("a page without doors is a problem, a project without the page is none", () => {
  assert.equal(doors({ "ARCHITECTURE.md": DOORS.replace("## Doors", "## Rooms") }).length, 1);
  assert.deepEqual(doors({ "core/a.ts": "" }), []);
});
