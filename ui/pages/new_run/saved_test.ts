import assert from "node:assert/strict";
import type { Plan, Run } from "../../../api/types.ts";
import {
  BLANK,
  copyOf,
  forgetRun,
  isBegun,
  isUntouched,
  likeRun,
  savedRun,
  saveRun,
  withRecipe,
} from "./saved.ts";
import { tomlOf } from "./toml_text.ts";

/** A store of one value; a full one takes none. */
function storeOf({ is_full = false } = {}) {
  let value: string | null = null;
  return {
    getItem: () => value,
    setItem: (_key: string, text: string) => {
      if (is_full) throw new DOMException("full", "QuotaExceededError");
      value = text;
    },
    removeItem: () => value = null,
  };
}

Deno.test("what was written is there after a reload, until the run is started", () => {
  const store = storeOf(), run = { ...BLANK, mode: "toml" as const, text: "x = 1" };
  assert.equal(savedRun(store), null);
  saveRun(store, run);
  assert.deepEqual(savedRun(store), run);
  forgetRun(store);
  assert.equal(savedRun(store), null);
  const full = storeOf({ is_full: true });
  saveRun(full, run);
  assert.equal(savedRun(full), null);
  store.setItem("", "{");
  assert.equal(savedRun(store), null);
});

const PLAN = {
  config: {
    run: { algorithm: "sft", seed: 42 },
    metrics: {},
    training: { lr: 1e-3, ctx: 512, micro_batch_tokens: 512, updates: 9 },
    sft: { data: "/d.jsonl", template_variables: {} },
    agent: { mcp_servers: [{ id: "a", allowed_tools: ["x"] }] },
  },
  sources: {
    ...{ "run.seed": "default", "training.lr": "override", "training.ctx": "derived" },
    ...{ "training.micro_batch_tokens": "derived", "training.updates": "measured" },
    "sft.template_variables": "default",
  },
  warnings: [{ code: "lever_applied", field: "training.micro_batch_tokens", message: "" }],
} as unknown as Plan;

Deno.test("a text has what was set and chosen as lines, and what the server would choose again as comments", () => {
  assert.equal(
    tomlOf(PLAN, "n"),
    `name = "n"

[run]
algorithm = "sft"
# seed = 42  # default

[metrics]

[training]
lr = 0.001
# ctx = 512  # derived
micro_batch_tokens = 512
# updates = 9  # measured

[sft]
data = "/d.jsonl"

[[agent.mcp_servers]]
id = "a"
allowed_tools = [ "x" ]
`,
  );
  assert.equal(tomlOf({ ...PLAN, config: { a: { "b c": { d: 1 } } } }, ""), '[a."b c"]\nd = 1\n');
});

Deno.test("a text is replaced by the recipe until somebody writes in it", () => {
  const carried = withRecipe(BLANK, { plan: PLAN, keys: new Map() });
  assert.ok(isUntouched(BLANK) && isUntouched(carried));
  assert.ok(!isUntouched({ ...carried, text: `${carried.text}\n[lora]` }));
  const draft = { ...BLANK.draft, model: "/m.gguf", budget: { ...BLANK.draft.budget, epochs: "2" } };
  const without = withRecipe({ ...BLANK, draft }, { plan: null, keys: new Map() });
  assert.match(without.text, /path = "\/m.gguf"\n[^]*epochs = 2\n/);
});

Deno.test("a run that a recipe cannot say opens as a text", () => {
  const run = { id: "run_1", algorithm: "sft" as const, config: PLAN.config, plan: PLAN } satisfies Partial<
    Run
  >;
  const { mode, text, carried } = likeRun(run);
  assert.deepEqual([mode, text], ["toml", carried]);
  assert.match(text, /# micro_batch_tokens = 512/);
  const { agent: _, ...config } = PLAN.config;
  assert.equal(likeRun({ ...run, config }).mode, "recipe");
});

const RUN = { id: "run_1", algorithm: "sft" as const, config: PLAN.config, plan: PLAN } satisfies Partial<
  Run
>;

Deno.test("a copy of a run keeps what was written, which is there again when the copy is started", () => {
  const store = storeOf(), fresh = BLANK, written = { ...BLANK, draft: { ...BLANK.draft, name: "mine" } };
  saveRun(store, written);
  const copy = copyOf(RUN, { saved: savedRun(store), fresh });
  assert.deepEqual([copy.from, copy.before], ["run_1", written]);
  saveRun(store, copy);
  forgetRun(store);
  assert.deepEqual(savedRun(store), written);
  // A text counts as written too.
  const text = { ...BLANK, mode: "toml" as const, text: "x = 1" };
  assert.deepEqual(copyOf(RUN, { saved: text, fresh }).before, text);
});

Deno.test("a copy that was begun is there after a reload, and what nobody wrote is not kept", () => {
  const copy = copyOf(RUN, { saved: null, fresh: BLANK });
  assert.deepEqual([isBegun(RUN.id, copy), isBegun("run_2", copy), isBegun(RUN.id, BLANK)], [
    true,
    false,
    false,
  ]);
  assert.equal(copyOf(RUN, { saved: BLANK, fresh: BLANK }).before, null);
});
