import assert from "node:assert/strict";
import { RenderedChat } from "../../agent/rollout/rendered_chat.ts";
import { withFolder } from "../../tests/folder.ts";
import { llama3Renderer, mistralRenderer } from "../../tests/llama3_chat.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { probeTemplate } from "../../trainer/tokenizer/template_probe.ts";
import { eventsOf, ofKind, startTestRun } from "../run_fake.ts";

/** Formats, with the turns of every second attempt, whose text is all vowels, and of the others. */
const FORMATS = [
  {
    format: "llama3_json",
    open: llama3Renderer,
    good: ['{"name": "say", "parameters": {"text": "aeiou"}}', '{"name": "submit", "parameters": {}}'],
    bad: ['{"name": "say"}', '{"name": "say", "parameters": {"text": "xyz"}}', '{"answer": 84}'],
  },
  {
    format: "mistral",
    open: mistralRenderer,
    good: [
      'So: [TOOL_CALLS] [{"name": "say", "arguments": {"text": "aeiou"}, "id": "abcdefgh1"}]',
      '[TOOL_CALLS][{"name": "submit", "arguments": {}, "id": "abcdefgh2"}]',
    ],
    bad: [
      '[TOOL_CALLS][{"name": "say"}]',
      '[TOOL_CALLS][{"name": "say", "arguments": {"text": "xyz"}}]',
      '[{"answer": 84}]',
    ],
  },
];

for (const { format, open, good, bad } of FORMATS) {
  Deno.test(
    `a run whose template has the calls of ${format} calls tools and trains on their rewards`,
    { sanitizeOps: true, sanitizeResources: true },
    async () => {
      const renderer = await open();
      const chat = new RenderedChat({ renderer, probe: probeTemplate(renderer, {}), variables: {} });
      const { id: end } = renderer.turnEnd({ tools: [], variables: {} })!;
      await withFolder(async (root) => {
        const turns_of = new Map<number, readonly string[]>();
        const run = await startTestRun({
          ...{ root, chat, more: "" },
          newEngine: (refuse) =>
            new ScriptedEngine({
              refuse,
              vocabulary: renderer.tokenizer.size,
              script: ({ sequence, turn }) => {
                if (turn === 0) turns_of.set(sequence, turns_of.size % 2 === 0 ? good : bad);
                return [...renderer.encode(turns_of.get(sequence)![turn]!), end];
              },
            }).client,
          change: ({ agent, training }) => {
            training.ctx = 4096;
            agent!.max_trajectory_tokens = 4096;
            agent!.updates = 1;
          },
        });
        const events = await eventsOf(run);
        assert.equal(await run.ended, "completed");
        const [update] = ofKind(events, "update");
        assert.deepEqual([update!.reward_mean, update!.lost], [0.5, {}]);
        const metrics = ofKind(events, "metrics").find(({ values }) => "agent/turns_mean" in values)!.values;
        // Of eight attempts four have two calls, and four a malformed one, a call and an answer that is no call.
        assert.deepEqual(
          [metrics["agent/turns_mean"], metrics["agent/malformed_call_fraction"], metrics["stop/submitted"]],
          [2.5, 4 / 16, 0.5],
        );
        assert.equal(metrics["stop/no_tool_call"], 0.5);
      });
    },
  );
}
