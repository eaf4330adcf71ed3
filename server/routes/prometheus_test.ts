import assert from "node:assert/strict";
import { z } from "zod";
import { ServiceError } from "../../core/errors.ts";
import { VERSION } from "../../core/version.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import { RUN_STATES } from "../../runs/record/run.ts";
import { testApp, testRequest } from "../app_testing.ts";
import { ROUTES } from "../route_table.ts";
import { json, route } from "../routing/route.ts";
import { readExposition, type ReadSample } from "../telemetry/exposition_testing.ts";

type Send = ReturnType<typeof testApp>["send"];

/** The metrics, which the strict reader accepts. */
async function scrape(send: Send, token?: string): Promise<(name: string) => ReadSample[]> {
  const answer = await send("/v1/metrics", token ? { headers: { authorization: `Bearer ${token}` } } : {});
  assert.equal(answer.status, 200);
  assert.equal(answer.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
  const families = readExposition(answer.body);
  return (name) => {
    const family = families.get(name.replace(/_(bucket|sum|count)$/, "")) ?? families.get(name);
    assert.ok(family, `there is a metric ${name}`);
    return family.samples.filter((sample) => sample.name === name);
  };
}

/** The values of a metric by the values of its labels. */
function values(samples: readonly ReadSample[]): Record<string, number> {
  return Object.fromEntries(samples.map(({ labels, value }) => [Object.values(labels).join(" "), value]));
}

Deno.test("requests are counted by method, route and status, and paths never make a metric", async () => {
  const { send } = testApp({ toml: `auth_token = "t"` });
  const headers = { authorization: "Bearer t" };
  await send("/v1/health", { headers });
  await send("/v1/health", { headers });
  await send("/v1/health");
  await send("/v1/runs/run_canary", { headers });
  await send("/v1/canary", { headers });
  await send("/v1/health", { headers, method: "CANARY" });
  const metric = await scrape(send, "t");
  assert.deepEqual(values(metric("svc_http_requests_total")), {
    "GET /v1/health 200": 2,
    "GET /v1/health 401": 1,
    "GET /v1/runs/{id} 404": 1,
    "GET none 404": 1,
    "other /v1/health 405": 1,
  });
  assert.deepEqual(values(metric("svc_http_request_duration_seconds_count"))["GET /v1/health"], 3);
  assert.deepEqual(values(metric("svc_http_requests_in_progress")), { "/v1/metrics": 1 });
  // {"status":"ok","version":"0.1.0","uptime_seconds":0} twice, and a problem document.
  assert.ok(values(metric("svc_http_response_bytes_total"))["GET /v1/health"]! > 100);
  const { body } = await send("/v1/metrics", { headers });
  assert.ok(!/canary/i.test(body));
  assert.equal((await send("/v1/metrics")).status, 401);
});

Deno.test("durations fall into buckets by the clock", async () => {
  const waits = route({
    method: "GET",
    path: "/v1/waits",
    operation: "wait",
    summary: "Waits.",
    answers: { 200: { description: "Done.", content: { "application/json": z.null() } } },
    async handler() {
      await clock.advance(200);
      return json(200, null);
    },
  });
  const { send, clock } = testApp({ routes: [...ROUTES, waits] });
  await send("/v1/waits");
  const metric = await scrape(send), of = ({ labels }: ReadSample) => labels.route === "/v1/waits";
  const buckets = metric("svc_http_request_duration_seconds_bucket").filter(of);
  assert.deepEqual(
    Object.fromEntries(buckets.map(({ labels, value }) => [labels.le, value])),
    {
      ...{ "0.001": 0, "0.0025": 0, "0.005": 0, "0.01": 0, "0.025": 0, "0.05": 0, "0.1": 0 },
      ...{ "0.25": 1, "0.5": 1, "1": 1, "2.5": 1, "10": 1, "60": 1, "+Inf": 1 },
    },
  );
  assert.equal(metric("svc_http_request_duration_seconds_sum").filter(of)[0]!.value, 0.2);
});

Deno.test("runs by state, slots, queue and readers of events are gauges", async () => {
  const runs = ["running", "queued", "queued", "failed"].map((state) => ({ record: { state } }));
  const fleet = { list: () => runs } as unknown as Fleet;
  const { app, send } = testApp({ fleet, toml: "max_concurrent_runs = 2\nmax_queued_runs = 7" });
  const stream = await app.handle(...testRequest("/v1/events"));
  const metric = await scrape(send);
  assert.deepEqual(values(metric("svc_runs")), {
    ...Object.fromEntries(RUN_STATES.map((state) => [state, 0])),
    ...{ running: 1, queued: 2, failed: 1 },
  });
  assert.deepEqual(metric("svc_run_slots")[0]!.value, 2);
  assert.deepEqual(metric("svc_run_queue_limit")[0]!.value, 7);
  assert.deepEqual(values(metric("svc_event_followers")), { run: 0, all: 1 });
  await stream.body!.cancel();
  assert.deepEqual(values((await scrape(send))("svc_event_followers")), { run: 0, all: 0 });
});

Deno.test("jobs are counted by outcome; one that exceeds a limit is logged with the trace of its request", async () => {
  const outcomes = [
    () => Promise.resolve({ models: [], is_complete: true }),
    () =>
      Promise.reject(
        new ServiceError("data_invalid", "Cannot look: it takes too long", { limit: "seconds" }),
      ),
    () => Promise.reject(new ServiceError("data_invalid", "Cannot look: no such folder")),
    () => Promise.reject(new Error("a bug")),
    () => Promise.reject(new ServiceError("device_unavailable", "Cannot look: too many wait")),
  ];
  const jobs = { run: () => outcomes.shift()!() } as unknown as JobRunner;
  const asks = route({
    method: "GET",
    path: "/v1/asks",
    operation: "ask",
    summary: "Asks for a job.",
    answers: { 200: { description: "Done.", content: { "application/json": z.null() } } },
    async handler({ services, request }) {
      await services.jobs.run("find_models", { roots: [] } as never, request.signal).catch(() => {});
      return json(200, null);
    },
  });
  const { send, logged } = testApp({ jobs, routes: [...ROUTES, asks] });
  for (let i = 0; i < 5; i++) await send("/v1/asks");
  const metric = await scrape(send);
  assert.deepEqual(values(metric("svc_jobs_total")), {
    "find_models done": 1,
    "find_models limit": 1,
    "find_models refused": 1,
    "find_models failed": 1,
    "find_models busy": 1,
  });
  assert.equal(values(metric("svc_job_duration_seconds_count"))["find_models"], 5);
  assert.deepEqual(values(metric("svc_jobs_in_progress")), { find_models: 0 });
  assert.deepEqual(logged, [{
    level: "warning",
    job: "find_models",
    message: "Cannot look: it takes too long",
  }]);
});

Deno.test("the process and the build are metrics with the usual names", async () => {
  const { send, clock } = testApp();
  const started = clock.wall_ms() / 1000;
  const metric = await scrape(send);
  assert.deepEqual(metric("svc_build_info")[0], {
    name: "svc_build_info",
    labels: { version: VERSION, deno: Deno.version.deno },
    value: 1,
  });
  const startTime = async () => (await scrape(send))("process_start_time_seconds")[0]!.value;
  // A part of a second since the start does not change it.
  assert.equal(await startTime(), started);
  await clock.advance(5400);
  assert.equal(await startTime(), started);
  for (
    const name of [
      "process_resident_memory_bytes",
      "process_cpu_seconds_total",
      "svc_heap_used_bytes",
      "svc_external_memory_bytes",
      ...(Deno.build.os === "linux" ? ["process_open_fds"] : []),
    ]
  ) assert.ok(metric(name)[0]!.value > 0, name);
});
