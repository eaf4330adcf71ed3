/** The ids with which a follower of all runs resumes. */

import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { testApp, testRequest } from "../app_testing.ts";
import { openDatabase } from "../store/database.ts";
import { FleetEvents, KEPT_EVENTS } from "../store/fleet_events.ts";

/** A server that has told of more runs than it keeps events. */
function oldServer() {
  const clock = new ManualClock(), database = openDatabase(null, { clock, log: () => {} });
  const events = new FleetEvents(database, clock);
  // The numbers of what is long gone.
  database.run("INSERT INTO fleet_events VALUES (?, '', 'created', 'run_1', 'queued')", KEPT_EVENTS + 40);
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
