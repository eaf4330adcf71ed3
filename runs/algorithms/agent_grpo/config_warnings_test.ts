import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../../config/check/derive.ts";
import { testConfig } from "../../config_testing.ts";
import { agentWarnings } from "./config_warnings.ts";

const probe = { tool_loop_stable: true, problems: [] as string[] };

function codes(change: (config: ResolvedConfig) => void, more: Partial<typeof probe> = {}): string[] {
  const config = testConfig("/nowhere");
  change(config);
  return agentWarnings(config, { ...probe, ...more }).map(({ code }) => code);
}

Deno.test("a sound configuration has no warning", () => assert.deepEqual(codes(() => {}), []));

for (
  const [code, change] of [
    ["group_too_small", (config: ResolvedConfig) => config.agent!.group_size = 3],
    [
      "clip_range_for_level",
      (config: ResolvedConfig) => config.agent!.importance_sampling_level = "sequence",
    ],
    ["judge_only_reward", (config: ResolvedConfig) => {
      delete config.agent!.environment;
      config.agent!.judge = {
        type: "ruler",
        base_url: "http://x",
        model: "m",
        timeout_secs: 1,
        permute: true,
      };
    }],
    ["mutable_image_tag", ({ agent }: ResolvedConfig) => {
      agent!.environment = { ...agent!.environment!, type: "container", image: "registry/own:latest" };
    }],
    ["kl_reference_is_base", (config: ResolvedConfig) => {
      config.agent!.kl_coefficient = 0.1;
      config.lora.init_adapter = "a.gguf";
    }],
  ] as const
) {
  Deno.test(`warning ${code}`, () => assert.deepEqual(codes((config) => void change(config)), [code]));
}

Deno.test("an image that is named by its digest cannot change", () => {
  const image = `registry/own@sha256:${"0".repeat(64)}`;
  const pinned = ({ agent }: ResolvedConfig) => {
    agent!.environment = { ...agent!.environment!, type: "container", image };
  };
  assert.deepEqual(codes(pinned), []);
});

Deno.test("a template that changes earlier turns is warned about, with the key that names it", () => {
  const unstable = { ...probe, tool_loop_stable: false }, config = testConfig("/nowhere");
  const fields = () => agentWarnings(config, unstable).map(({ code, field }) => [code, field]);
  assert.deepEqual(fields(), [["template_not_prefix_stable", "model.path"]]);
  config.model.chat_template = "t.jinja";
  assert.deepEqual(fields(), [["template_not_prefix_stable", "model.chat_template"]]);
  // When the probe failed, nothing is known.
  assert.deepEqual(codes(() => {}, { tool_loop_stable: false, problems: ["no system role"] }), []);
});

Deno.test("a small group is warned about with the key and the size that is enough", () => {
  const messages = (group_size: number) => {
    const config = testConfig("/nowhere", '[evaluation]\ndata = "x.jsonl"\n[checkpoint]');
    config.agent!.group_size = group_size;
    return agentWarnings(config, probe).map(({ message }) => message);
  };
  const rest = "so advantages are noisy: set agent.group_size to 4 or more";
  assert.deepEqual(messages(2), [`each attempt is compared with only 1 other, ${rest}`]);
  assert.deepEqual(messages(3), [`each attempt is compared with only 2 others, ${rest}`]);
  assert.deepEqual(messages(4), []);
});
