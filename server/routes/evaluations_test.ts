import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { EventData } from "../../runs/record/event.ts";
import { heldoutByUpdate, startTestRun, useSft } from "../../runs/run_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testApp } from "../app_testing.ts";
import { RUN_EVENTS } from "../resources/event_schema.ts";
import { evaluationResult } from "../resources/run_requests.ts";
import { resumed, runsOf, SCENARIOS_ONLY, storedRun, writeEvents } from "../runs_testing.ts";

/** A real run of three updates, evaluated after 0, 2 and 3; `passing` of its three held-out scenarios pass. */
async function realRun(
  root: string,
  passing: readonly number[],
  change: (config: ResolvedConfig) => void = () => {},
) {
  const { refuse, verify } = heldoutByUpdate(passing);
  const run = await startTestRun({
    root,
    change,
    refuse,
    verify,
    newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
  });
  assert.equal(await run.ended, "completed");
  return storedRun(root, "test");
}

const send = (run: ReturnType<typeof storedRun>) => testApp({ runs: runsOf(run) }).send;

const evaluation = (n: number, update: number, passes: number): EventData => ({
  kind: "evaluation",
  n,
  update,
  pass_rate: { rate: passes, low: 0, high: 1, n: 1, attempts: 1 },
  reward_mean: passes,
  loss: null,
  perplexity: null,
  rows: null,
  failed: {},
  failure: null,
  scenarios: [{ scenario: "s", attempts: 1, passes, rewards: [passes], stop_reasons: ["submitted"] }],
});

Deno.test("evaluations of a run have the outcome of each scenario, newest first", async () => {
  await withFolder(async (root) => {
    const get = send(await realRun(root, [0, 0, 3, 2]));
    const { evaluations, next_cursor } = (await get("/v1/runs/test/evaluations")).json;
    assert.equal(next_cursor, null);
    assert.deepEqual(
      evaluations.map(({ n, update, reward_mean }: Record<string, number>) => [n, update, reward_mean]),
      [[3, 3, 2 / 3], [2, 2, 1], [1, 0, 0]],
    );
    const { json } = await get("/v1/runs/test/evaluations/3");
    assert.deepEqual(json, evaluations[0]);
    assert.deepEqual(json.pass_rate.rate, 2 / 3);
    assert.deepEqual([json.pass_rate.n, json.pass_rate.attempts], [3, 6]);
    assert.deepEqual(
      json.scenarios,
      ["kl", "mn", "op"].map((scenario, place) => ({
        scenario,
        attempts: 2,
        passes: place < 2 ? 2 : 0,
        rewards: place < 2 ? [1, 1] : [0, 0],
        stop_reasons: ["submitted", "submitted"],
      })),
    );
    const { time, loss, perplexity, values, rows, failed, failure, row_losses } = json;
    assert.deepEqual({ loss, perplexity, values, rows, failed, failure, row_losses }, SCENARIOS_ONLY);
    assert.match(time, /^2026-01-01T00:00:00/);
  });
});

Deno.test("evaluations on rows have the loss of each row", async () => {
  await withFolder(async (root) => {
    const get = send(await realRun(root, [0], useSft));
    const { json } = await get("/v1/runs/test/evaluations/1");
    const [row] = json.row_losses;
    assert.deepEqual([json.pass_rate, json.scenarios, json.rows], [null, [], { n: 1, truncated: 0 }]);
    // There is one row, so its loss is that of all rows.
    assert.deepEqual([row.row, row.loss, row.weight, json.row_losses.length], ["9", json.loss, 8, 1]);
    assert.ok(Math.abs(Math.exp(json.loss) - json.perplexity) < 1e-9);
  });
});

Deno.test("values that are not finite are left out of evaluations and checkpoints", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test"), name = "update_000001", values = { finite: 0.5, infinite: Infinity };
    await writeEvents(run.directory!, [
      resumed(0),
      Object.assign(evaluation(1, 1, 1), { values }),
      { kind: "checkpoint", name, update: 1, step: 1, size_bytes: 1, metrics: values, best: true },
    ]);
    await Deno.mkdir(`${run.checkpoints}/${name}`, { recursive: true });
    await Deno.writeTextFile(`${run.checkpoints}/${name}/state.json`, "{}");
    const get = send(run);
    assert.deepEqual((await get("/v1/runs/test/evaluations/1")).json.values, { finite: 0.5 });
    const [checkpoint] = (await get("/v1/runs/test/checkpoints")).json.checkpoints;
    assert.deepEqual(checkpoint.metrics, { finite: 0.5 });
  });
});

Deno.test("the loss of a row that is not finite is null, in the answer and in the event", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test");
    const by_row = { 1: { sum: 3, weight: 2 }, 2: { sum: NaN, weight: 2 }, 3: { sum: 0, weight: 0 } };
    const measured = { pass_rate: null, reward_mean: null, loss: NaN, perplexity: NaN, scenarios: [] };
    const event = { ...evaluation(1, 1, 1), ...measured, rows: { n: 3, truncated: 0 }, by_row };
    await writeEvents(run.directory!, [resumed(0), event as EventData]);
    const { json } = await send(run)("/v1/runs/test/evaluations/1");
    assert.deepEqual([json.loss, json.perplexity], [null, null]);
    const losses = [["1", 1.5, 2], ["2", null, 2], ["3", null, 0]];
    assert.deepEqual(json.row_losses, losses.map(([row, loss, weight]) => ({ row, loss, weight })));
    const line = (await Deno.readTextFile(`${run.directory}/events.jsonl`)).trim().split("\n")[1]!;
    RUN_EVENTS.evaluation.parse(JSON.parse(line));
  });
});

Deno.test("an evaluation on request has no values that are not finite", () => {
  const values = JSON.parse('{"a": 1, "b": null}');
  const result = { ...SCENARIOS_ONLY, pass_rate: null, reward_mean: null, scenarios: [], by_example: {} };
  const shown = evaluationResult({ ...result, values, failures: {}, deterministic: true }, null);
  assert.deepEqual(shown.values, { a: 1 });
});

Deno.test("pages of evaluations follow each other", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A");
    await writeEvents(run.directory!, Array.from({ length: 12 }, (_, i) => evaluation(i + 1, i, 1)));
    const get = send(run);
    const numbers: number[] = [];
    for (let cursor = ""; cursor !== null;) {
      const { json } = await get(`/v1/runs/run_A/evaluations?limit=5${cursor && `&cursor=${cursor}`}`);
      numbers.push(...json.evaluations.map(({ n }: { n: number }) => n));
      cursor = json.next_cursor;
    }
    assert.deepEqual(numbers, [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    const { status, json } = await get("/v1/runs/run_A/evaluations?cursor=!");
    assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [
      422,
      "/query/cursor",
      "invalid_value",
    ]);
    assert.equal((await get("/v1/runs/run_A/evaluations?limit=501")).json.errors[0].code, "out_of_range");
  });
});

Deno.test("a repeated evaluation replaces the first one", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A");
    await writeEvents(run.directory!, [
      evaluation(1, 0, 0),
      evaluation(2, 2, 0),
      evaluation(3, 4, 0),
      resumed(1),
      evaluation(2, 2, 1),
    ]);
    const { evaluations } = (await send(run)("/v1/runs/run_A/evaluations")).json;
    assert.deepEqual(
      evaluations.map(({ n, pass_rate }: { n: number; pass_rate: { rate: number } }) => [n, pass_rate.rate]),
      [[2, 1], [1, 0]],
    );
  });
});

Deno.test("an evaluation or run that is not there is 404", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A"), get = send(run);
    assert.deepEqual((await get("/v1/runs/run_A/evaluations")).json, { evaluations: [], next_cursor: null });
    await writeEvents(run.directory!, [evaluation(1, 0, 0)]);
    for (const n of ["2", "01", "1.0", "x", "__proto__", "%00", "9".repeat(3000)]) {
      const { status, json } = await get(`/v1/runs/run_A/evaluations/${n}`);
      assert.deepEqual(
        [status, json.errors[0].pointer, json.errors[0].code],
        [404, "/path/n", "not_found"],
        n,
      );
    }
    for (const path of ["evaluations", "evaluations/1", "checkpoints"]) {
      assert.equal((await get(`/v1/runs/run_X/${path}`)).json.errors[0].pointer, "/path/id");
    }
  });
});

Deno.test("checkpoints are listed newest first, the best evaluated one marked", async () => {
  await withFolder(async (root) => {
    const run = await realRun(root, [0, 0, 3, 2]), get = send(run);
    const { checkpoints, next_cursor } = (await get("/v1/runs/test/checkpoints")).json;
    assert.equal(next_cursor, null);
    type Card = { name: string; update: number; step: number; best: boolean };
    assert.deepEqual(
      checkpoints.map(({ name, update, step, best }: Card) => [name, update, step, best]),
      [["update_000003", 3, 3, false], ["update_000002", 2, 2, true], ["update_000001", 1, 1, false]],
    );
    for (const { name, size_bytes, metrics, created_at } of checkpoints) {
      let bytes = 0;
      for await (const file of Deno.readDir(`${run.checkpoints}/${name}`)) {
        bytes += (await Deno.stat(`${run.checkpoints}/${name}/${file.name}`)).size;
      }
      assert.equal(size_bytes, bytes);
      assert.ok(Number.isFinite(metrics["loss/policy"]));
      assert.equal(created_at, "2026-01-01T00:00:00.000Z");
    }
    const first = (await get("/v1/runs/test/checkpoints?limit=2")).json;
    const second = (await get(`/v1/runs/test/checkpoints?limit=2&cursor=${first.next_cursor}`)).json;
    assert.deepEqual([...first.checkpoints, ...second.checkpoints], checkpoints);
    assert.equal(second.next_cursor, null);
  });
});

Deno.test("a checkpoint whose event was not written is read from its folder, a damaged or removed one left out", async () => {
  await withFolder(async (root) => {
    const run = await realRun(root, [0, 0, 3, 2]), path = `${run.directory}/events.jsonl`;
    const get = send(run), whole = (await get("/v1/runs/test/checkpoints")).json.checkpoints[0];
    const lines = (await Deno.readTextFile(path)).split("\n");
    const at = lines.findIndex((line) => line.includes('"name":"update_000003"'));
    await Deno.writeTextFile(path, lines.slice(0, at).join("\n") + "\n");
    const [found] = (await get("/v1/runs/test/checkpoints")).json.checkpoints;
    assert.deepEqual(found, whole);
    const names = async () =>
      (await get("/v1/runs/test/checkpoints")).json.checkpoints.map(({ name }: { name: string }) => name);
    assert.deepEqual(await names(), ["update_000003", "update_000002", "update_000001"]);
    await Deno.remove(`${run.checkpoints}/update_000001`, { recursive: true });
    await Deno.writeTextFile(`${run.checkpoints}/update_000003/state.json`, "{");
    assert.deepEqual(await names(), ["update_000002"]);
  });
});
