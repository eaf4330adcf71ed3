/** The ids with which a follower of all runs resumes. */

import assert from "node:assert/strict";
import type { z } from "zod";
import { ManualClock } from "../../core/clock_fake.ts";
import type { RunEvent } from "../../runs/record/event.ts";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { assertDeclaredEvents, testApp, testRequest } from "../app_testing.ts";
import { FLEET_EVENTS, RUN_EVENTS } from "../resources/event_schema.ts";
import { FleetRuns } from "../resources/run_document.ts";
import { openDatabase } from "../store/database.ts";
import { FleetEvents, KEPT_EVENTS } from "../store/fleet_events.ts";

/** When a run was created whose events are gone. */
const LONG_AGO = "2026-01-01T00:00:00.000Z";

/** A server that has told of more runs than it keeps events. */
function oldServer() {
  const clock = new ManualClock(), database = openDatabase(null, { clock, log: () => {} });
  const events = new FleetEvents(database, clock);
  // The number of what is long gone.
  database.run(
    "INSERT INTO fleet_events VALUES (?, ?, 'created', 'run_1', 'queued')",
    KEPT_EVENTS + 40,
    LONG_AGO,
  );
  events.add({ kind: "created", run: "run_2", state: "queued" });
  return { ...testApp({ database }), newest: KEPT_EVENTS + 41, close: () => database.close() };
}

async function firstEvents(app: ReturnType<typeof testApp>["app"], since: number): Promise<string> {
  const left = new AbortController();
  const [request, context] = testRequest(`/v1/events?since=${since}`, { signal: left.signal });
  const { body, status } = await app.handle(request, context);
  assert.equal(status, 200);
  let text = "";
  for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes("run_2")) break;
  }
  left.abort();
  assertDeclaredEvents({ operation: "stream_events" }, FLEET_EVENTS, text);
  return text.split("\n").filter((line) => !line.startsWith("data")).join(" ").trim();
}

Deno.test("an id older than what is kept begins with a gap, any other with the event after it", async () => {
  const { app, newest, close } = oldServer(), first = newest - 1;
  const gap = `id: ${first - 1} event: gap`,
    both = `id: ${first} event: created  id: ${newest} event: created`;
  assert.equal(await firstEvents(app, 1), `${gap}  ${both}`);
  assert.equal(await firstEvents(app, first - 2), `${gap}  ${both}`);
  assert.equal(await firstEvents(app, first - 1), both);
  assert.equal(await firstEvents(app, 0), both, "a new follower has missed nothing");
  assert.equal(await firstEvents(app, first), `id: ${newest} event: created`);
  close();
});

Deno.test("no answer has events that the run's process has not told to be on disk", () =>
  withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      const run = await fleet.create({ updates: 1 }), path = `/v1/runs/${run.id}`;
      await fleet.until(run, "completed");
      await fleet.fleet.idle(run.id);
      const { send } = testApp({ fleet: fleet.fleet, runs: new FleetRuns(fleet.fleet) });
      const log = await Deno.readTextFile(run.eventsPath);
      const answers = async () => ({
        events: (await send(`${path}/artifacts/events`)).body,
        csv: (await send(`${path}/artifacts/metrics`)).body,
        samples: (await send(`${path}/metrics`)).json.samples,
        health: (await send(`${path}/health`)).json,
        checkpoints: (await send(`${path}/checkpoints`)).json,
      });
      const before = await answers();
      assert.equal(before.events, log);
      // A process writes its events before it flushes them, and tells of them after that.
      const unflushed = { seq: run.last_seq + 1, time: "2026-01-01T00:00:00.000Z", run: run.id };
      const event = { ...unflushed, kind: "metrics", update: 2, step: 2, values: { "loss/policy": 7 } };
      await Deno.writeTextFile(run.eventsPath, `${JSON.stringify(event)}\n`, { append: true });
      assert.deepEqual(await answers(), before);
      await run.advance(unflushed.seq);
      const { events, samples } = await answers();
      assert.equal(events, `${log}${JSON.stringify(event)}\n`);
      assert.equal(samples.at(-1).value, 7);
    } finally {
      await fleet.close();
    }
  }));

Deno.test("ids that are none, or from the future, are refused", async () => {
  const { send, newest, close } = oldServer();
  const refusal = async (id: string) => {
    const { status, json } = await send("/v1/events", { headers: { "last-event-id": id } });
    return [status, json.errors[0].pointer, json.errors[0].code];
  };
  for (
    const id of [
      "",
      "x",
      "-1",
      "+1",
      "1.5",
      "1e3",
      "0x1",
      "01",
      "NaN",
      "9223372036854775808",
      "1".repeat(9999),
    ]
  ) {
    assert.deepEqual(await refusal(id), [422, "", "invalid_value"], id);
  }
  for (const id of [newest + 1, Number.MAX_SAFE_INTEGER, "9999999999999999"]) {
    assert.deepEqual(await refusal(String(id)), [422, "", "out_of_range"]);
  }
  close();
});

/** A command's arguments are checked by the events of real runs. */
type Typed = Exclude<RunEvent, { kind: "command" }>;

Deno.test("every event that a run writes has a declared form, as the type checker finds", () => {
  const declared: (event: Typed) => z.input<typeof RUN_EVENTS[Typed["kind"]]> = (event) => event;
  const event: Typed = {
    ...{ seq: 1, time: "2026-01-01T00:00:00.000Z", run: "run_1", kind: "state", state: "queued" },
    ...{ reason: null, detail: null, update: 0, checkpoint: null },
  };
  assert.deepEqual(RUN_EVENTS.state.parse(declared(event)), event);
});
