import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { testConfig } from "../config_testing.ts";
import { configWarnings, suggestedCheckpoint } from "./warnings.ts";
import { RUN_WARNING_CODES, WARNING_CODES } from "../record/warning.ts";

const probe = { tool_loop_stable: true, turn_end: "<|im_end|>", problems: [] as string[] } as Parameters<
  typeof configWarnings
>[1]["probe"];

function codes(change: (config: ResolvedConfig) => void, more: Partial<typeof probe> = {}): string[] {
  const config = testConfig("/nowhere", '[evaluation]\ndata = "x.jsonl"\n[checkpoint]');
  change(config);
  return configWarnings(config, { context_length: 256, probe: { ...probe, ...more } }).map(({ code }) =>
    code
  );
}

Deno.test("a plan's codes are the contract's closed list, and a run's own are none of them", () => {
  const contract = [
    ...["clip_range_for_level", "template_not_prefix_stable", "budget_changed_on_fork", "group_too_small"],
    ...["judge_only_reward", "mutable_image_tag", "kl_reference_is_base", "no_heldout", "no_checkpoint"],
    ...["software_device", "vram_unknown", "lever_applied", "context_beyond_training", "context_truncated"],
    ...["rows_truncated", "no_end_signal"],
  ];
  assert.deepEqual(WARNING_CODES.toSorted(), contract.toSorted());
  const plan: readonly string[] = WARNING_CODES;
  assert.deepEqual(RUN_WARNING_CODES.filter((code) => plan.includes(code)), []);
});

Deno.test("a sound configuration has no warning", () => assert.deepEqual(codes(() => {}), []));

for (
  const [code, change] of [
    ["no_heldout", (config: ResolvedConfig) => delete config.evaluation],
    ["no_checkpoint", (config: ResolvedConfig) => delete config.checkpoint],
    ["context_beyond_training", (config: ResolvedConfig) => config.training.ctx = 257],
  ] as const
) {
  Deno.test(`warning ${code}`, () => assert.deepEqual(codes((config) => void change(config)), [code]));
}

Deno.test("warnings of the template", () => {
  assert.deepEqual(codes(() => {}, { turn_end: null }), ["no_end_signal"]);
  const unknown = { tool_loop_stable: false, turn_end: null, problems: ["no system role"] };
  assert.deepEqual(codes(() => {}, unknown), ["template_not_prefix_stable"]);
});

Deno.test("a run without [checkpoint] gets a warning with the cost of an interruption and the lines that prevent it", () => {
  const config = testConfig("/nowhere", '[evaluation]\ndata = "x.jsonl"');
  config.agent!.updates = 30;
  const [warning] = configWarnings(config, { context_length: 256, probe });
  assert.match(warning!.message, /an interruption loses everything.*\n\[checkpoint\]\nevery_updates = 3$/);
  const { training } = config;
  const every = (updates?: number, sft_updates?: number) =>
    Number(
      suggestedCheckpoint({
        run: { ...config.run, algorithm: updates === undefined ? "sft" : "agent_grpo" },
        training: sft_updates === undefined ? training : { ...training, updates: sft_updates },
        agent: updates === undefined ? undefined : { ...config.agent!, updates },
      }).split(" = ")[1],
    );
  // A tenth of the run, at least one update and at most the default.
  assert.deepEqual([1, 6, 10, 11, 100, 101].map((updates) => every(updates)), [1, 1, 1, 2, 10, 10]);
  // For sft, [training] sets the number of updates, or nothing does.
  assert.deepEqual([every(undefined, 20), every()], [2, 10]);
});

Deno.test("for sft the warning suggests the same lines as an interruption", () => {
  const config = testConfig("/nowhere", '[evaluation]\ndata = "x.jsonl"');
  delete config.agent;
  config.run.algorithm = "sft";
  config.training.updates = 20;
  const [warning] = configWarnings(config, { context_length: 256, probe });
  assert.ok(warning!.message.endsWith(`\n${suggestedCheckpoint(config)}`));
  assert.match(warning!.message, /every_updates = 2$/);
});
