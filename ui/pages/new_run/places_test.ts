import assert from "node:assert/strict";
import type { Problem, ProblemError } from "../../../api/types.ts";
import { EMPTY_DRAFT } from "./draft.ts";
import { fieldNames, isUnwritten } from "./field_names.ts";
import { partsOf } from "./memory_bar.tsx";
import { lineErrors, lineWarnings, placeErrors, pointerOf } from "./places.ts";

const error = (pointer: string, message = "is wrong", hint?: string): ProblemError => ({
  ...{ pointer, code: "invalid_value", message },
  ...(hint !== undefined && { hint }),
});
const problem = (...errors: ProblemError[]) => ({ errors }) as Problem;

Deno.test("a problem belongs to the field with the longest pointer, and to none that only begins alike", () => {
  const lr = pointerOf(["params", "training.lr"]);
  const errors = [
    "/model",
    lr,
    "/objective/environment",
    "/objective/mcp_servers/0",
    "/models",
    "",
    "/params/foo",
  ];
  const { at, rest } = placeErrors(errors.map((pointer) => error(pointer)), [
    ...["/objective", "/model", lr, "/objective/environment", "/params/foo.bar"],
  ]);
  assert.deepEqual([...at].map(([field, found]) => [field, found.map(({ pointer }) => pointer)]), [
    ["/model", ["/model"]],
    [lr, [lr]],
    ["/objective/environment", ["/objective/environment"]],
    ["/objective", ["/objective/mcp_servers/0"]],
  ]);
  assert.deepEqual(rest.map(({ pointer }) => pointer), ["/models", "", "/params/foo"]);
  assert.equal(pointerOf(["a/b", "~"]), "/a~1b/~0");
});

const TEXT = `name = "n"

[model]
path = "m.gguf"

[[agent.mcp_servers]]
id = "a"
[[agent.mcp_servers]]
id = "b"
`;

Deno.test("a problem with a TOML text is at the line of its key, or of the section where the key is missing", () => {
  const errors = [
    error("/model/path", "is absent", "try m2"),
    error("/model/device"),
    error("/agent/mcp_servers/1/id"),
    error("/run", "is missing"),
    error("", "takes too much memory"),
  ];
  assert.deepEqual(lineErrors(TEXT, problem(...errors)).map(({ line, message }) => [line, message]), [
    [4, "model.path is absent; try m2"],
    [3, "model.device is wrong"],
    [9, "agent.mcp_servers.1.id is wrong"],
    [1, "run is missing"],
    [1, "takes too much memory"],
  ]);
});

Deno.test("a text that is not TOML has its problem where the server saw it", () => {
  const [remark] = lineErrors(
    "[model\n",
    problem(error("", "is not TOML: illegal character (line 3, column 7)")),
  );
  assert.deepEqual(remark, {
    ...{ line: 3, column: 7, severity: "error", message: "is not TOML: illegal character" },
  });
  const [whole] = lineErrors("", problem(error("", "is longer than 9 characters (line 1)")));
  assert.deepEqual([whole!.line, whole!.column], [1, null]);
});

Deno.test("warnings are at the lines of their keys; those about what the text does not have are not", () => {
  const warnings = [
    { code: "software_device" as const, field: "model.device", message: "slow" },
    { code: "no_heldout" as const, field: "evaluation", message: "nothing is measured" },
    { code: "vram_unknown" as const, message: "unknown" },
  ];
  assert.deepEqual(lineWarnings(TEXT, warnings), [
    { line: 3, column: null, severity: "warning", message: "slow" },
  ]);
});

Deno.test("the fields of a recipe are those that its algorithm shows, with the settings that were added", () => {
  const names = (recipe: "sft" | "agent_grpo") => {
    const draft = { ...EMPTY_DRAFT, recipe, params: { "lora.alpha": "8" } };
    return ["/data", "/scenarios", "/budget/minutes", "/params/lora.alpha", "/params/agent.max_turns"].map(
      (pointer) => fieldNames(draft).has(pointer),
    );
  };
  assert.deepEqual(names("sft"), [true, false, true, true, false]);
  assert.deepEqual(names("agent_grpo"), [false, true, false, true, true]);
});

Deno.test("a field that has to be written is told from one with a mistake", () => {
  const draft = { ...EMPTY_DRAFT, recipe: "agent_grpo" as const, model: "m" };
  const pointers = ["/model", "/scenarios", "/data", "/objective", "/budget/updates"];
  assert.deepEqual(pointers.map((pointer) => isUnwritten(pointer, draft)), [false, true, false, true, false]);
  const graded = { ...draft, objective: { ...draft.objective, reward: "r" } };
  assert.ok(!isUnwritten("/objective", graded));
});

Deno.test("the parts of a memory lie beside each other, as wide as their bytes", () => {
  const posts = [{ post: "a", bytes: 50 }, { post: "b", bytes: 25 }];
  assert.deepEqual(partsOf(posts, 100), [{ x: 0, width: 0.5 }, { x: 0.5, width: 0.25 }]);
});
