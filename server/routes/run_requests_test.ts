/** Evaluations and generations on request, of runs that train on a scripted engine. */

import assert from "node:assert/strict";
import { openGate, type ScriptedRun, TestFleet } from "../../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { withFolder } from "../../tests/folder.ts";
import { type Given, refusal, testApp, testRequest } from "../app_testing.ts";
import { SCENARIOS_ONLY } from "../runs_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const post = (body?: unknown): Given => ({
  method: "POST",
  ...(body === undefined ? {} : {
    headers: { "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  }),
});

type Runs = ReturnType<typeof testApp> & { fleet: TestFleet; gate: string };

const withRuns = (body: (runs: Runs) => Promise<void>, toml = "") =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      await body({ ...testApp({ fleet: fleet.fleet, toml }), fleet, gate: `${folder}/gate` });
    } finally {
      await fleet.close();
    }
  });

async function completed({ fleet }: Runs, scripted: ScriptedRun = { updates: 1 }): Promise<ManagedRun> {
  const run = await fleet.create(scripted);
  await fleet.until(run, "completed");
  await fleet.fleet.idle(run.id);
  return run;
}

const USER = { role: "user", content: "abc" };
const SAMPLING = { max_new_tokens: 20, temperature: 1, top_p: 1 };
const generation = (more: Record<string, unknown> = {}) => post({ messages: [USER], ...SAMPLING, ...more });

Deno.test(
  "a live run and a completed one evaluate and generate",
  strict,
  () =>
    withRuns(async ({ send, fleet, gate }) => {
      const run = await fleet.create({ gate, updates: 1 }),
        at = (name: string) => `/v1/runs/${run.id}/${name}`;
      await fleet.until(run, "running");
      const live = await send(at("generate"), generation({ seed: 3 }));
      assert.equal(live.status, 200, live.body);
      const { message, token_ids, logprobs, stop_reason, usage } = live.json;
      // Every turn of the test's model writes its text as the argument of a call, and submits it.
      assert.equal(message.role, "assistant");
      assert.deepEqual(
        message.tool_calls.map(({ function: { name } }: { function: { name: string } }) => name),
        [
          "say",
          "submit",
        ],
      );
      assert.ok(token_ids.length > 0 && token_ids.length <= 20);
      assert.equal(stop_reason, token_ids.length === 20 && token_ids.at(-1) < 51 ? "length" : "stop");
      assert.equal(logprobs.length, token_ids.length);
      assert.ok(logprobs.every((logprob: number) => logprob < 0));
      assert.equal(usage.completion_tokens, token_ids.length);
      assert.ok(usage.prompt_tokens > 0);
      assert.deepEqual((await send(at("generate"), generation({ seed: 3 }))).json, live.json);
      const evaluated = await send(at("evaluate"), post());
      assert.equal(evaluated.status, 200, evaluated.body);
      const { checkpoint, pass_rate, reward_mean, scenarios, ...none } = evaluated.json;
      assert.deepEqual([checkpoint, pass_rate.n, pass_rate.attempts, scenarios.length], [null, 3, 6, 3]);
      assert.equal(
        pass_rate.rate,
        scenarios.reduce(
          (sum: number, { passes, attempts }: Record<string, number>) => sum + passes! / attempts!,
          0,
        ) / 3,
      );
      assert.ok(reward_mean >= 0 && reward_mean <= 1);
      assert.deepEqual(none, { ...SCENARIOS_ONLY, deterministic: true });
      await openGate(gate, 1);
      await fleet.until(run, "completed");
      const later = await send(at("evaluate"), post({ checkpoint: "update_000001", limit: 1 }));
      assert.deepEqual([later.json.checkpoint, later.json.scenarios.length], ["update_000001", 1]);
      const base = await send(at("generate"), generation({ seed: 3, adapter: false }));
      const trained = await send(at("generate"), generation({ seed: 3 }));
      assert.notDeepEqual(base.json.logprobs, trained.json.logprobs);
    }),
);

Deno.test(
  "a body that is no request is refused with all that is wrong with it",
  strict,
  () =>
    withRuns(async (runs) => {
      const { send } = runs, run = await completed(runs), at = (name: string) => `/v1/runs/${run.id}/${name}`;
      const invalid = async (name: string, given: Given) => {
        const [status, type, entries] = refusal(await send(at(name), given));
        assert.deepEqual([status, type], [422, "invalid-request"]);
        return entries;
      };
      assert.deepEqual(await invalid("evaluate", post({ limit: 0, checkpoint: "", x: 1 })), [
        "/checkpoint invalid_value",
        "/limit out_of_range",
        "/x unknown_field",
      ]);
      assert.deepEqual(await invalid("generate", post({ messages: [] })), [
        "/messages invalid_value",
        "/max_new_tokens missing_field",
        "/temperature missing_field",
        "/top_p missing_field",
      ]);
      assert.deepEqual(
        await invalid("generate", generation({ max_new_tokens: 0, temperature: -1, top_p: 0, seed: -1 })),
        [
          "/max_new_tokens out_of_range",
          "/temperature out_of_range",
          "/top_p out_of_range",
          "/seed out_of_range",
        ],
      );
      const calls = (args: unknown) => [{ function: { name: "f", arguments: args } }];
      assert.deepEqual(
        await invalid(
          "generate",
          generation({
            messages: [{ role: "robot" }, { ...USER, nme: "x" }],
            tools: [{ name: "" }, { type: "x" }],
          }),
        ),
        [
          "/messages/0/role invalid_value",
          "/messages/1/nme unknown_field",
          "/tools/0/name invalid_value",
          "/tools/1/type invalid_value",
          "/tools/1/function missing_field",
        ],
      );
      assert.deepEqual(
        await invalid(
          "generate",
          generation({ messages: [USER, { role: "assistant", tool_calls: calls("[1]") }] }),
        ),
        ["/messages/1/tool_calls/0/function/arguments invalid_value"],
      );
      assert.deepEqual(
        await invalid("generate", generation({ adapter: false, checkpoint: "update_000001" })),
        [
          "/checkpoint invalid_value",
        ],
      );
    }),
);

Deno.test(
  "what only the run can tell: messages that do not fit, checkpoints that do not exist",
  strict,
  () =>
    withRuns(async (runs) => {
      const { send } = runs, run = await completed(runs), at = (name: string) => `/v1/runs/${run.id}/${name}`;
      const long = { role: "user", content: "x".repeat(300_000) };
      const refused = await send(at("generate"), generation({ messages: [long] }));
      assert.deepEqual(refusal(refused), [422, "invalid-request", ["/messages invalid_value"]]);
      assert.deepEqual(refusal(await send(at("generate"), post())), [415, "unsupported-media-type", [
        " unsupported_format",
      ]]);
      for (const checkpoint of ["update_000009", "__proto__", "../x", "\u0000", "%00", "\u202e"]) {
        for (
          const [name, given] of [["evaluate", post({ checkpoint })], [
            "generate",
            generation({ checkpoint }),
          ]] as const
        ) {
          assert.deepEqual(refusal(await send(at(name), given)), [404, "not-found", [
            "/checkpoint not_found",
          ]], checkpoint);
        }
      }
      const odd =
        '{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":' +
        '{"__proto__":1}}}]},{"role":"user","content":"a"}],"tools":[{"name":"f","inputSchema":{"__proto__":{}}}],' +
        '"max_new_tokens":1,"temperature":0,"top_p":1}';
      assert.equal((await send(at("generate"), post(odd))).status, 200);
      assert.equal(refusal(await send("/v1/runs/run_x/generate", post("{")))[0], 404);
    }),
);

Deno.test(
  "a run that does not answer in time is a timeout, whether it is live or not",
  strict,
  () =>
    withRuns(async (runs) => {
      const { send, fleet, gate } = runs, idle = await completed(runs, { updates: 1, hang: 20 });
      assert.deepEqual(refusal(await send(`/v1/runs/${idle.id}/generate`, generation())), [
        504,
        "timeout",
        [],
      ]);
      const live = await fleet.create({ gate, hang: 20 });
      await fleet.until(live, "running");
      assert.deepEqual(refusal(await send(`/v1/runs/${live.id}/generate`, generation())), [
        504,
        "timeout",
        [],
      ]);
      await fleet.fleet.command(live.id, { command: "cancel", at: "now", checkpoint: false });
      await openGate(gate, 1, 2, 3);
      await fleet.until(live, "cancelled");
    }, "command_timeout_seconds = 1\n"),
);

Deno.test(
  "what a run cannot answer is a conflict, a busy device or a failure",
  strict,
  () =>
    withRuns(async (runs) => {
      const { send, fleet, gate, app } = runs;
      const run = await completed(runs, { updates: 1, hang: 20 }), at = `/v1/runs/${run.id}/generate`;
      const left = new AbortController();
      const leaving = app.handle(...testRequest(at, { ...generation(), signal: left.signal }));
      while (fleet.fleet.device.hasSlot()) await new Promise((resolve) => setTimeout(resolve));
      left.abort();
      await leaving;
      assert.ok(fleet.fleet.device.hasSlot(), "the process ends with the client");
      const broken = await completed(runs, { updates: 1, probe: "changed" });
      const changed = await send(`/v1/runs/${broken.id}/evaluate`, post());
      assert.deepEqual(refusal(changed), [409, "conflict", [" conflict"]]);
      assert.match(changed.json.detail, /model\.path changed/);
      const dying = await completed(runs, { updates: 1, probe: "dies" });
      assert.deepEqual(refusal(await send(`/v1/runs/${dying.id}/evaluate`, post())), [500, "internal", []]);
      const full = await completed(runs, { updates: 1, probe: "full" });
      const refused = await send(`/v1/runs/${full.id}/generate`, generation());
      assert.deepEqual(refusal(refused), [422, "insufficient-memory", [" out_of_range"]]);
      const dominant_posts = [{ post: "weights", bytes: 3e9 }, { post: "kv", bytes: 1e9 }, {
        post: "adapters",
        bytes: 5,
      }];
      const budgets = { overflow_bytes: 0, vram_budget_bytes: 0, ram_budget_bytes: 2 ** 30 };
      assert.deepEqual(refused.json.meta, { ...budgets, dominant_posts, levers_applied: [], unlocks: [] });
      assert.match(refused.json.detail, /^Cannot generate: the device has no memory for the model/);
      assert.ok(!refused.body.includes("m.gguf"), "the model's path is the operator's");
      const live = await fleet.create({ gate });
      const busy = await send(at, generation());
      assert.deepEqual([refusal(busy), busy.headers["retry-after"]], [[503, "device-busy", []], "30"]);
      await fleet.until(live, "running");
      await fleet.fleet.command(live.id, { command: "cancel", at: "now", checkpoint: false });
      await openGate(gate, 1, 2, 3);
      await fleet.until(live, "cancelled");
      for (const name of ["evaluate", "generate"]) {
        const given = name === "evaluate" ? post({}) : generation();
        const refused = refusal(await send(`/v1/runs/${live.id}/${name}`, given));
        assert.deepEqual(refused, [409, "conflict", [" conflict"]]);
      }
    }),
);
