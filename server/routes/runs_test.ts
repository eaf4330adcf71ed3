/** The routes of runs, whose processes train on a scripted engine. */

import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";
import { loggedEvents as logOf, openGate, TestFleet } from "../../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { writeTraces } from "../../tests/small_sft.ts";
import { type Given, refusal, testApp, testRequest } from "../app_testing.ts";
import { withJobApp } from "../jobs_testing.ts";
import { FleetRuns } from "../resources/run_document.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const post = (body?: unknown, headers: Record<string, string> = {}): Given => ({
  method: "POST",
  ...(body === undefined ? { headers } : {
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  }),
});

type Runs = ReturnType<typeof testApp> & { fleet: TestFleet; gate: string };

const withRuns = (
  body: (runs: Runs) => Promise<void>,
  options: { slots?: number; max_queued?: number } = {},
) =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder, ...options });
    try {
      const app = testApp({ fleet: fleet.fleet, changes: fleet.relayed, runs: new FleetRuns(fleet.fleet) });
      await body({ ...app, fleet, gate: `${folder}/gate` });
    } finally {
      await fleet.close();
    }
  });

/** A run that has trained to its end. */
async function completed({ fleet }: Runs, updates = 2): Promise<ManagedRun> {
  const run = await fleet.create({ updates });
  await fleet.until(run, "completed");
  await fleet.fleet.idle(run.id);
  return run;
}

Deno.test("runs are listed newest first, in pages and by filters", strict, () =>
  withRuns(async (runs) => {
    const { send } = runs, ids: string[] = [];
    for (let i = 0; i < 3; i++) ids.unshift((await completed(runs, 1)).id);
    const first = await send("/v1/runs?limit=2");
    assert.deepEqual(first.json.runs.map(({ id }: { id: string }) => id), ids.slice(0, 2));
    const second = await send(`/v1/runs?limit=2&cursor=${first.json.next_cursor}`);
    assert.deepEqual([second.json.runs[0].id, second.json.next_cursor], [ids[2], null]);
    // Each of the runs was created, started, ran and completed.
    assert.deepEqual([first, second].map(({ headers }) => headers["last-event-id"]), ["12", "12"]);
    assert.equal((await send("/v1/runs?state=running")).json.runs.length, 0);
    assert.equal((await send("/v1/runs?state=completed&algorithm=agent_grpo&name=test")).json.runs.length, 3);
    assert.equal((await send("/v1/runs?name=__proto__")).json.runs.length, 0);
    assert.deepEqual(refusal(await send("/v1/runs?limit=0&state=x&cursor=!")), [422, "invalid-request", [
      "/query/state invalid_value",
      "/query/limit out_of_range",
      "/query/cursor invalid_value",
    ]]);
  }));

Deno.test(
  "a long page of runs comes in pieces, which together are the documents of its runs",
  strict,
  () =>
    withRuns(async (runs) => {
      const run = await completed(runs, 1), { json } = await runs.send(`/v1/runs/${run.id}`);
      const idOf = (n: number) => `run_${"0".repeat(24)}${n}`;
      const ids = Array.from({ length: 13 }, (_, i) => idOf(22 - i));
      const { service, progress, last_metrics } = run;
      const list = () =>
        ids.map((id) => ({ id, service, progress, last_metrics, record: { ...run.record, id } }));
      const { app, send } = testApp({ fleet: { list } as unknown as Fleet });
      const response = await app.handle(...testRequest("/v1/runs?limit=12"));
      const pieces = await Array.fromAsync(response.body!.pipeThrough(new TextDecoderStream()));
      const most = Math.max(...pieces.map((piece) => piece.split('"state_reason"').length - 1));
      assert.equal(most, 1, "the most runs of one piece");
      const { runs: shown, next_cursor } = JSON.parse(pieces.join(""));
      assert.deepEqual(shown, ids.slice(0, 12).map((id) => ({ ...json, id })));
      const { json: rest } = await send(`/v1/runs?limit=12&cursor=${next_cursor}`);
      assert.deepEqual(rest, { runs: [{ ...json, id: idOf(10) }], next_cursor: null });
      assert.equal((await send("/v1/runs?limit=500")).json.next_cursor, null);
    }),
);

Deno.test(
  "a run shows its state, progress and metrics, and is changed by name, notes and tags",
  strict,
  () =>
    withRuns(async (runs) => {
      const { send } = runs, run = await completed(runs);
      const { json } = await send(`/v1/runs/${run.id}`);
      assert.deepEqual([json.state, json.state_reason, json.error, json.deterministic], [
        "completed",
        null,
        null,
        true,
      ]);
      assert.deepEqual(json.progress, { update: 2, updates: 2, step: 2, eta_seconds: null, phase: null });
      assert.ok(json.last_metrics["reward/mean"] > 0 && json.started_at && json.ended_at);
      const changes = { name: 'ü "x" ', notes: "first\nsecond", tags: ["a", "__proto__"] };
      const given: Given = {
        method: "PATCH",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(changes),
      };
      const changed = await send(`/v1/runs/${run.id}`, given);
      const { name, notes, tags } = changed.json;
      assert.deepEqual({ name, notes, tags }, changes);
      assert.deepEqual((await send(`/v1/runs/${run.id}`)).json.tags, changes.tags);
      await send(`/v1/runs/${run.id}`, { ...given, body: '{"name":"renamed"}' });
      const { artifacts } = (await send(`/v1/runs/${run.id}/artifacts`)).json;
      const files: string[] = artifacts.map(({ file_name }: { file_name: string }) => file_name);
      assert.ok(files.length > 0 && files.every((file) => file.startsWith("renamed")), files.join());
      const lr = { ...given, body: JSON.stringify({ training: { lr: 0.1 } }) };
      assert.deepEqual(refusal(await send(`/v1/runs/${run.id}`, lr)), [409, "conflict", [" conflict"]]);
      // A refused rate leaves the texts as they were.
      const both = { ...given, body: JSON.stringify({ training: { lr: 0.1 }, name: "other", tags: [] }) };
      assert.equal((await send(`/v1/runs/${run.id}`, both)).status, 409);
      const kept = (await send(`/v1/runs/${run.id}`)).json;
      assert.deepEqual([kept.name, kept.tags], ["renamed", changes.tags]);
      const wrong = { ...given, body: JSON.stringify({ training: { lr: 2 }, name: "", x: 1 }) };
      assert.deepEqual(refusal(await send(`/v1/runs/${run.id}`, wrong)), [422, "invalid-request", [
        "/name invalid_value",
        "/training/lr out_of_range",
        "/x unknown_field",
      ]]);
      for (const id of ["run_x", "__proto__", "%00", "%E2%80%AE", "x".repeat(9000)]) {
        assert.deepEqual(refusal(await send(`/v1/runs/${id}`)), [404, "not-found", ["/path/id not_found"]]);
      }
    }),
);

Deno.test(
  "commands are accepted in the states of the contract, and refused in others",
  strict,
  () =>
    withRuns(async ({ send, fleet, gate }) => {
      const run = await fleet.create({ gate, updates: 2 });
      const at = (command: string) => `/v1/runs/${run.id}/${command}`;
      await fleet.until(run, "running");
      assert.deepEqual(refusal(await send(at("resume"), post())), [409, "conflict", [" conflict"]]);
      const paused = await send(at("pause"), post());
      assert.deepEqual([paused.status, paused.json], [202, { accepted: true, takes_effect: "boundary" }]);
      await openGate(gate, 1);
      await fleet.until(run, "paused");
      assert.deepEqual((await send(at("checkpoints"), post())).json, { accepted: true, takes_effect: "now" });
      const lr = {
        method: "PATCH",
        headers: { "content-type": "application/json" },
        body: '{"training":{"lr":0.5}}',
      };
      const { change } = run, named = { ...lr, body: '{"training":{"lr":0.25},"name":"other"}' };
      run.change = () => Promise.reject(new ServiceError("internal", "Cannot write: the disk is full"));
      assert.equal((await send(`/v1/runs/${run.id}`, named)).status, 500);
      run.change = change;
      const commands = (await logOf(run)).flatMap((event) => event.kind === "command" ? [event.command] : []);
      assert.ok(!commands.includes("set_lr"), "one change: neither the name nor the rate");
      assert.equal((await send(`/v1/runs/${run.id}`, lr)).status, 200);
      assert.equal((await send(at("resume"), post())).status, 202);
      await fleet.until(run, "running");
      assert.deepEqual(
        (await send(at("cancel"), post({ at: "now", checkpoint: true }))).json.takes_effect,
        "now",
      );
      await openGate(gate, 1, 2);
      await fleet.until(run, "cancelled");
      assert.deepEqual(refusal(await send(at("cancel"), post({ at: "later" }))), [422, "invalid-request", [
        "/at invalid_value",
      ]]);
      assert.equal((await send(at("cancel"), post())).status, 409);
      assert.equal((await send(`/v1/runs/${run.id}`, { method: "DELETE" })).status, 204);
      assert.equal((await send(`/v1/runs/${run.id}`)).status, 404);
    }),
);

Deno.test(
  "a resume without a slot is refused with the time to ask again",
  strict,
  () =>
    withRuns(async ({ send, fleet, gate }) => {
      const first = await fleet.create({ gate });
      await fleet.until(first, "running");
      first.child!.kill();
      await fleet.until(first, "interrupted");
      await fleet.fleet.idle(first.id);
      const second = await fleet.create({ gate });
      await fleet.until(second, "running");
      const refused = await send(`/v1/runs/${first.id}/resume`, post());
      assert.deepEqual(refusal(refused), [503, "device-busy", []]);
      assert.equal(refused.headers["retry-after"], "30");
      // A run that waits in an update leaves with its end.
      await openGate(gate, 1, 2, 3);
    }),
);

/** Reads a stream of events to its end. */
async function eventsOf({ app }: Pick<Runs, "app">, target: string, headers = {}) {
  const left = new AbortController();
  const response = await app.handle(...testRequest(target, { headers, signal: left.signal }));
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("content-type"), "text/event-stream");
  const events: { id: number; event: string; data: Record<string, unknown> }[] = [];
  let text = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const fields = text.slice(0, end).split("\n").map((line) =>
        line.split(/: (.*)/s, 2) as [string, string]
      );
      text = text.slice(end + 2);
      const { id, event, data } = Object.fromEntries(fields);
      if (id !== undefined) events.push({ id: Number(id), event: event!, data: JSON.parse(data!) });
    }
  }
  left.abort();
  return events;
}

Deno.test(
  "the events of a run come as they are on disk, and the stream ends with the run",
  strict,
  () =>
    withRuns(async (runs) => {
      const { send, fleet, gate } = runs, run = await fleet.create({ gate, updates: 1 });
      const path = `/v1/runs/${run.id}/events`;
      const following = eventsOf(runs, path);
      await fleet.until(run, "running");
      await openGate(gate, 1);
      const events = await following;
      assert.deepEqual(events.map(({ id }) => id), events.map((_, i) => i + 1));
      const last = events.at(-1)!;
      assert.deepEqual([last.event, last.data.kind, last.data.run, last.data.seq], [
        "end",
        "end",
        run.id,
        last.id,
      ]);
      assert.ok(events.every(({ event, data }) => event === data.kind));
      await fleet.until(run, "completed");
      // Each has the declared form of its name.
      assert.equal((await send(path)).status, 200);
      const kinds = new Set(events.map(({ event }) => event));
      for (const kind of ["state", "metrics", "update", "evaluation", "checkpoint", "artifact"]) {
        assert.ok(kinds.has(kind), kind);
      }
      const rest = await eventsOf(runs, path, { "last-event-id": String(last.id - 2) });
      assert.deepEqual(rest, events.slice(-2));
      assert.deepEqual(await eventsOf(runs, `${path}?since=1`), events.slice(1));
      assert.equal((await send(path, { headers: { "last-event-id": String(last.id) } })).status, 204);
      for (const id of ["-1", "x", "1.5", "9223372036854775808", ""]) {
        assert.deepEqual(refusal(await send(path, { headers: { "last-event-id": id } })), [
          422,
          "invalid-request",
          [" invalid_value"],
        ], id);
      }
      assert.deepEqual(refusal(await send(`${path}?since=${last.id + 1}`)), [422, "invalid-request", [
        "/query/since out_of_range",
      ]]);
    }),
);

Deno.test(
  "a silent stream has a comment every 15 seconds",
  strict,
  () =>
    withRuns(async ({ app, fleet, gate, clock }) => {
      const run = await fleet.create({ gate });
      await fleet.until(run, "running");
      const left = new AbortController(), since = run.last_seq;
      const target = `/v1/runs/${run.id}/events?since=${since}`;
      const response = await app.handle(...testRequest(target, { signal: left.signal }));
      const reader = response.body!.getReader();
      let read = reader.read();
      // Events of the run may come first.
      for (let text = ""; text !== ":\n\n";) {
        while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve));
        await clock.advance(15_000);
        const { value } = await read;
        text = new TextDecoder().decode(value);
        if (text !== ":\n\n") read = reader.read();
      }
      await reader.cancel();
      left.abort();
      await openGate(gate, 1, 2, 3);
      await fleet.until(run, "completed");
    }),
);

Deno.test(
  "what happens to all runs is one stream that can be resumed",
  strict,
  () =>
    withRuns(async (runs) => {
      const { app, send } = runs, left = new AbortController();
      const response = await app.handle(...testRequest("/v1/events", { signal: left.signal }));
      const run = await completed(runs, 1);
      await send(`/v1/runs/${run.id}`, { method: "DELETE" });
      const seen: [string, string][] = [];
      let text = "";
      for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
        text += piece;
        for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
          const { kind, run: id, state, seq } = JSON.parse(/^data: (.*)$/m.exec(text.slice(0, end))![1]!);
          assert.deepEqual([id, seq], [run.id, seen.length + 1]);
          seen.push([kind, state]);
          text = text.slice(end + 2);
        }
        if (seen.at(-1)?.[0] === "deleted") break;
      }
      left.abort();
      assert.deepEqual(seen, [
        ["created", "queued"],
        ["state", "starting"],
        ["state", "running"],
        ["state", "completed"],
        ["deleted", "completed"],
      ]);
      assert.deepEqual(refusal(await send("/v1/events?since=99")), [422, "invalid-request", [
        "/query/since out_of_range",
      ]]);
    }),
);

const MODEL = await fixturePath("models/tiny-agent-f16.gguf");

Deno.test(
  "a run is created once for an idempotency key, and a fork keeps what its parent trained",
  strict,
  () =>
    withFolder(async (folder) => {
      const fleet = await TestFleet.open({ folder, slots: 4 });
      try {
        await withJobApp(async ({ send, root, logged }) => {
          const files = { model: `${root}/m.gguf`, data: `${root}/t.jsonl` };
          await Deno.copyFile(MODEL, files.model);
          await writeTraces(files.data);
          const recipe = {
            recipe: "sft",
            ...files,
            budget: { updates: 3 },
            params: { "training.ctx": 1024 },
          };
          const key = { "idempotency-key": "k-1" };
          const both = await Promise.all([
            send("/v1/runs", post(recipe, key)),
            send("/v1/runs", post(recipe, key)),
          ]);
          assert.deepEqual(both.map(({ status }) => status).sort(), [200, 201], JSON.stringify(logged));
          const created = both.find(({ status }) => status === 201)!;
          assert.equal(created.headers.location, `/v1/runs/${created.json.id}`);
          assert.equal(both[0]!.json.id, both[1]!.json.id);
          assert.equal(created.json.name, "sft m");
          const other = await send("/v1/runs", post({ ...recipe, name: "x" }, key));
          assert.deepEqual(refusal(other), [409, "conflict", [" conflict"]]);
          const run = fleet.fleet.get(created.json.id)!;
          const early = await send("/v1/runs", post({ fork_from: { run: run.id } }));
          await fleet.until(run, "completed");
          assert.ok(early.status === 409 || early.status === 201, String(early.status));
          const fork_from = { run: run.id, checkpoint: "update_000002" };
          const lr = { "training.lr": 0.5 };
          const fork = await send(
            "/v1/runs",
            post({ fork_from, name: "again", params: lr, budget: { updates: 4 } }),
          );
          assert.equal(fork.status, 201, JSON.stringify(fork.json));
          assert.deepEqual(fork.json.parent, fork_from);
          assert.deepEqual([fork.json.config.training.lr, fork.json.config.training.updates], [0.5, 4]);
          const changed = await send("/v1/runs", post({ fork_from, params: { "lora.rank": 4 } }));
          assert.deepEqual(refusal(changed), [409, "conflict", ["/params/lora.rank conflict"]]);
          const none = await send("/v1/runs", post({ fork_from: { ...fork_from, checkpoint: "../x" } }));
          assert.deepEqual(refusal(none), [404, "not-found", ["/fork_from/checkpoint not_found"]]);
          const forked = fleet.fleet.get(fork.json.id)!;
          await fleet.until(forked, "completed", "failed");
          const later = await send("/v1/runs", post(recipe, { "idempotency-key": "ü" }));
          assert.equal(later.status, 422);
        }, { fleet: fleet.fleet, probeDevices: () => Promise.resolve([ASSUMED_DEVICE]) });
      } finally {
        await fleet.close();
      }
    }),
);
