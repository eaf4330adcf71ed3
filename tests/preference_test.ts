/** `svc` from a file of pairs to an adapter that prefers the chosen completions, with the tiny model on the device. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import { readEvents } from "../runs/record/event_log.ts";
import { ofKind } from "../runs/run_fake.ts";
import { withFolder } from "./folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

async function svc(...args: string[]): Promise<string> {
  const command = new Deno.Command(Deno.execPath(), { args: ["run", "-A", "cli.ts", ...args], cwd: ROOT });
  const { code, stdout, stderr } = await command.output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** Rows that prefer colours to numbers, whatever the question. */
function rows(questions: readonly string[]): string {
  return questions.map((content, i) =>
    JSON.stringify({
      prompt: [{ role: "user", content }],
      chosen: [{ role: "assistant", content: ["red", "green", "blue"][i % 3] }],
      rejected: [{ role: "assistant", content: ["seven", "eight", "nine"][i % 3] }],
    })
  ).join("\n");
}

const config = (loss: string) => `
run = { algorithm = "preference", seed = 3 }
model = { path = "${ROOT}fixtures/models/tiny-agent-f16.gguf" }
lora = { rank = 4, alpha = 8 }
training = { ctx = 64, lr = 5e-3, updates = 4, batch_tokens = 160 }
preference = { data = "pairs.jsonl", loss = "${loss}" }
evaluation = { data = "heldout.jsonl", every_updates = 4 }
`;

Deno.test("a run on pairs raises the held-out margin, and svc eval measures the same", async () => {
  await withFolder(async (root) => {
    await Deno.writeTextFile(
      `${root}/pairs.jsonl`,
      rows(["Name one.", "What is it?", "Which?", "Tell me.", "And now?"]),
    );
    await Deno.writeTextFile(`${root}/heldout.jsonl`, rows(["Say it.", "Pick one.", "Well?"]));
    for (const loss of ["dpo", "orpo"]) {
      const path = `${root}/${loss}.toml`, directory = `${root}/runs/${loss}`;
      await Deno.writeTextFile(path, config(loss));
      await svc("train", path);
      const events = await Array.fromAsync(readEvents(`${directory}/events.jsonl`));
      const [before, after] = ofKind(events, "evaluation").map(({ values }) => values!);
      assert.ok(
        after!["eval/margin"]! > before!["eval/margin"]! + 0.1,
        `${loss}: ${JSON.stringify([before, after])}`,
      );
      assert.equal(after!["eval/accuracy"], 1);
      const report = await svc("eval", path, "--json", "--adapter", `${directory}/adapter.gguf`);
      const { values, loss: measured } = JSON.parse(report) as EvaluationResult;
      assert.deepEqual(values, after);
      assert.equal(measured, ofKind(events, "evaluation").at(-1)!.loss);
    }
  });
});
