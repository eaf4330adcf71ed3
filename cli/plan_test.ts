import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { writePairs, writeTraces } from "../tests/small_sft.ts";
import { runSvc } from "./context_fake.ts";

const EXAMPLE = new URL("../examples/tiny_agent_grpo.toml", import.meta.url).pathname;

Deno.test("a plan is printed with its components; one that does not fit exits with status 1 and the reason", async () => {
  const fits = await runSvc("plan", EXAMPLE, "--vram", "8GiB");
  assert.deepEqual([fits.code, fits.err], [0, ""]);
  assert.match(fits.out, /^run +tiny_agent_grpo, agent_grpo$/m);
  assert.match(fits.out, /^device +.* with 8\.0 GiB$/m);
  assert.match(fits.out, /^memory +[\d.]+ MiB at most, \d % of the device's$/m);
  // This run takes the most while it trains. The cache is not there then.
  assert.doesNotMatch(fits.out, /^ {2}kv/m);
  for (const post of ["weights", "adapters", "optimizer", "activations", "sampler", "loss", "staging"]) {
    assert.match(fits.out, new RegExp(`^  ${post} +[\\d.]+ [KM]iB$`, "m"));
  }
  assert.match(fits.out, /the run fits on the device$/m);
  const full = await runSvc("plan", EXAMPLE, "--vram", "64MiB", "--json");
  assert.equal(full.code, 1);
  assert.match(full.err, /^svc: Cannot fit the run on the device: it takes/);
  const plan = JSON.parse(full.out);
  assert.equal(plan.memory.vram_budget_bytes, 64 * 2 ** 20);
  assert.equal(plan.schedule.updates, 6);
});

Deno.test("the plan of a preference run is printed", async () => {
  const pairs = new URL("../examples/tiny_agent_preference.toml", import.meta.url).pathname;
  const { code, out, err } = await withFolder(async (folder) => {
    await writePairs(`${folder}/pairs.jsonl`);
    return await runSvc("plan", pairs, `preference.data=${folder}/pairs.jsonl`, "--vram", "8GiB");
  });
  assert.deepEqual([code, err], [0, ""]);
  assert.match(out, /^run +tiny_agent_preference, preference$/m);
  assert.match(out, /^updates +\d+ of about \d+ tokens$/m);
  assert.match(out, /the run fits on the device$/m);
});

Deno.test("a plan tells the number of updates, or what limits it", async () => {
  const sft = new URL("../examples/tiny_agent_sft.toml", import.meta.url).pathname;
  await withFolder(async (folder) => {
    const traces = `${folder}/traces.jsonl`;
    await writeTraces(traces);
    const updates = async (...overrides: string[]) => {
      const { out } = await runSvc("plan", sft, `sft.data=${traces}`, ...overrides, "--vram", "8GiB");
      return /^updates +(.*) of about \d+ tokens$/m.exec(out)?.[1];
    };
    // An epoch has more than 3 updates.
    assert.equal(
      await updates("training.batch_tokens=1024", "training.epochs=1", "training.updates=3"),
      "3",
    );
    assert.equal(
      await updates("training.updates=3", "training.max_minutes=1.5"),
      "at most 3 in 1.5 minutes",
    );
    const path = `${folder}/minutes.toml`;
    const minutes = (await Deno.readTextFile(sft)).replace("epochs = 1", "max_minutes = 60")
      .replace(/^data = .*$/m, `data = ${JSON.stringify(traces)}`)
      .replaceAll("../", new URL("..", import.meta.url).pathname);
    await Deno.writeTextFile(path, minutes);
    const { out } = await runSvc("plan", path, "--vram", "8GiB", "--json");
    const { schedule, config } = JSON.parse(out);
    assert.deepEqual([schedule.updates, "epochs" in config.training], [null, false]);
    const shown = (await runSvc("plan", path, "--vram", "8GiB")).out;
    assert.match(shown, /^updates +as many as fit in 60 minutes of about \d+ tokens$/m);
  });
});

Deno.test("an invalid size and an invalid configuration are refused", async () => {
  for (const size of ["12GB", "all", "0.5", "0"]) {
    const { code, err } = await runSvc("plan", EXAMPLE, "--vram", size);
    assert.equal(code, 2, size);
    assert.match(err, /It must be a size such as "12GiB"/);
  }
  const { code, err } = await runSvc("plan", EXAMPLE, "training.ctx=8", "--vram", "8GiB");
  assert.equal(code, 2);
  assert.match(err, /training\.ctx/);
});
