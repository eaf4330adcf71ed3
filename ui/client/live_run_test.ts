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

Deno.test("metrics become series; after a resume the later value of an update counts", () => {
  const live = liveRun();
  live.take(metrics(1, 1, { a: 1 }));
  live.take(metrics(2, 2, { a: 2, b: null }));
  live.take(metrics(3, 3, { a: 3 }));
  assert.equal(live.series.value.size, 0, "nothing is drawn before the next frame");
  live.flush();
  assert.deepEqual(live.series.value.get("a"), { updates: [1, 2, 3], steps: [1, 2, 3], values: [1, 2, 3] });
  live.take(metrics(4, 2, { a: 20 }));
  live.flush();
  assert.deepEqual(live.series.value.get("a"), { updates: [1, 2], steps: [1, 2], values: [1, 20] });
  assert.deepEqual(live.series.value.get("b"), { updates: [2], steps: [2], values: [null] });
});

Deno.test("several steps of one update are all kept", () => {
  const live = liveRun();
  for (const step of [1, 2]) live.take({ ...metrics(step, 1, { loss: 4 + step }), step } as RunEvent);
  live.flush();
  assert.deepEqual(live.series.value.get("loss"), { updates: [1, 1], steps: [1, 2], values: [5, 6] });
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

Deno.test("a viewed run has no stream: its metrics are read from its files, page by page", async () => {
  const abort = new AbortController(), asked: string[] = [];
  const samples = (seq: number) => [{ seq, time: "", update: seq, step: seq, name: "a", value: 10 * seq }];
  const answers: Record<string, unknown> = {
    "/v1/runs/run_1": { id: "run_1", plan: null },
    "/v1/runs/run_1/health": { rules: [] },
    "/v1/runs/run_1/metrics?since=0": { samples: samples(1), next_since: 1 },
    "/v1/runs/run_1/metrics?since=1": { samples: samples(2), next_since: 2 },
    "/v1/runs/run_1/metrics?since=2": { samples: [], next_since: 2 },
  };
  const live = liveRun((input) => {
    const { pathname, search } = input as URL;
    asked.push(pathname + search);
    if (search === "?since=2") queueMicrotask(() => setTimeout(() => abort.abort()));
    return Promise.resolve(Response.json(answers[pathname + search]));
  });
  await live.follow(abort.signal);
  assert.deepEqual(live.series.value.get("a"), { updates: [1, 2], steps: [1, 2], values: [10, 20] });
  assert.ok(!asked.some((path) => path.endsWith("/events")));
});
