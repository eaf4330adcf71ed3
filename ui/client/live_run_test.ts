import assert from "node:assert/strict";
import { Api } from "./api.ts";
import { LiveRun, type RunEvent } from "./live_run.ts";
import { Session } from "./session.ts";

const NO_STORE = { getItem: () => null, setItem: () => {}, removeItem: () => {} };
const session = new Session({ tab: NO_STORE, browser: NO_STORE });

function liveRun(fetch: typeof globalThis.fetch = () => Promise.reject(new Error("not asked"))): LiveRun {
  return new LiveRun(new Api({ session, page: "http://h/", fetch }), "run_1");
}

function metrics(seq: number, update: number, values: Record<string, number | null>): RunEvent {
  return { seq, time: "2026-01-01T00:00:00Z", run: "run_1", kind: "metrics", update, step: update, values };
}

Deno.test("metrics become series with the next frame; a run that resumes repeats its updates", () => {
  const live = liveRun(), values = () => live.series.value.get("a")?.values;
  for (const [seq, value] of [1, 2, 3].entries()) live.take(metrics(seq + 1, value, { a: value }));
  assert.equal(values(), undefined, "nothing is drawn before the next frame");
  live.flush();
  assert.deepEqual(values(), [1, 2, 3]);
  const base = { seq: 4, time: "", run: "run_1", reason: null, detail: "", checkpoint: "update_000001" };
  live.take({ ...base, kind: "state", state: "starting", update: 1 } as unknown as RunEvent);
  live.take(metrics(5, 2, { a: 20 }));
  live.flush();
  assert.deepEqual(values(), [1, 20]);
});

Deno.test("the journal has what people read, and not every metric", () => {
  const live = liveRun();
  live.take(metrics(1, 1, { a: 1 }));
  const event: RunEvent = {
    ...{ seq: 2, time: "2026-01-01T00:00:00Z", run: "run_1", kind: "log", level: "info", message: "hello" },
  };
  live.take(event);
  live.flush();
  assert.deepEqual(live.journal.value, [event]);
});

/** A server of one run, which ends the page when it is asked for something a second time. */
function serverOf(answers: Record<string, unknown>) {
  const abort = new AbortController(), asked: string[] = [];
  const live = liveRun((input, init) => {
    const { pathname, search } = input as URL, path = pathname + search;
    const last = new Headers(init?.headers).get("last-event-id");
    asked.push(last === null ? path : `${path} after ${last}`);
    if (path.endsWith("/events")) abort.abort();
    return Promise.resolve(Response.json(answers[path]));
  });
  return { live, abort, asked };
}

const BUCKET = { name: "a", first_update: 1, last_update: 3, count: 3, min: 1, mean: 2, max: 3, last: 3 };

Deno.test("a long run begins with buckets, and its stream with the journal of its last events", async () => {
  const { live, abort, asked } = serverOf({
    "/v1/runs/run_1": { id: "run_1", plan: {} },
    "/v1/runs/run_1/health": { rules: [] },
    "/v1/runs/run_1/metrics?buckets=400": { buckets: [BUCKET], next_since: 5000 },
  });
  await live.follow(abort.signal);
  assert.deepEqual(live.series.value.get("a"), {
    updates: [3],
    values: [2],
    low: [1],
    high: [3],
    counts: [3],
  });
  assert.equal(asked.at(-1), "/v1/runs/run_1/events after 3000");
});

Deno.test("a viewed run has no stream: its metrics come from its files", async () => {
  const { live, abort, asked } = serverOf({
    "/v1/runs/run_1": { id: "run_1", plan: null, progress: { update: 3 } },
    "/v1/runs/run_1/health": { rules: [] },
    "/v1/runs/run_1/metrics?buckets=400": { buckets: [BUCKET], next_since: 3 },
  });
  live.series.subscribe(({ size }) => size > 0 && queueMicrotask(() => setTimeout(() => abort.abort())));
  await live.follow(abort.signal);
  assert.deepEqual(live.series.value.get("a")?.values, [2]);
  assert.ok(!asked.some((path) => path.includes("/events")));
});

Deno.test("the end of an ended run's stream does not count as the server's absence", async () => {
  const seen: boolean[] = [];
  let streams = 0;
  const event = { seq: 1, time: "", run: "run_1", kind: "end", state: "completed", update: 1 };
  const live = liveRun((input) => {
    const { pathname } = input as URL;
    if (pathname === "/v1/runs/run_1") return Promise.resolve(Response.json({ id: "run_1", plan: {} }));
    if (pathname === "/v1/runs/run_1/health") return Promise.resolve(Response.json({ rules: [] }));
    if (pathname === "/v1/runs/run_1/metrics") {
      return Promise.resolve(Response.json({ buckets: [], next_since: 0 }));
    }
    if (streams++ > 0) return Promise.resolve(new Response(null, { status: 204 }));
    return Promise.resolve(new Response(`id: 1\nevent: end\ndata: ${JSON.stringify(event)}\n\n`));
  });
  live.is_live.subscribe((is_live) => seen.push(is_live));
  await live.follow(new AbortController().signal, (draw) => draw());
  assert.deepEqual([streams, seen], [2, [true]]);
});
