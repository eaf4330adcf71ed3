/** A page while events arrive: nothing moves, and nothing is lost when the server goes away. */

import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import type { Run } from "../../api/types.ts";
import { numberText } from "../../ui/parts/format.ts";
import { shownEvents } from "../shown_events.ts";
import { smallSft } from "../small_sft.ts";
import { browserTest, closeBrowser } from "./browser.ts";
import { chartWith, inState, logIn, valuesOf } from "./parts.ts";
import { TOKEN, World } from "./world.ts";

Deno.test.afterAll(closeBrowser);

/** Collects what moved without having been asked to, as browsers measure it (Cumulative Layout Shift). */
const COLLECT_SHIFTS = `
  globalThis.shifts = [];
  new PerformanceObserver((list) => {
    for (const { value, hadRecentInput, sources } of list.getEntries()) {
      const moved = sources.map(({ node, previousRect: from, currentRect: to }) => {
        const html = (node?.outerHTML ?? node?.parentElement?.outerHTML ?? "").slice(0, 100);
        return [html, to.x - from.x, to.y - from.y].join(" ");
      });
      if (!hadRecentInput) globalThis.shifts.push({ value, moved });
    }
  }).observe({ type: "layout-shift", buffered: true });`;

async function openRun(page: Page, { url }: World, { id, name }: Run): Promise<void> {
  await page.goto(`${url}/#/runs/${id}`);
  await logIn(page, TOKEN);
  await page.getByRole("heading", { name, level: 1 }).waitFor();
}

async function startSft(world: World, updates: number): Promise<Run> {
  const { recipe } = await smallSft(world.file("."), { updates });
  return await world.api<Run>("POST", "/v1/runs", { name: "many steps", ...recipe });
}

browserTest("nothing moves while 200 events arrive", async (page) => {
  await using world = await World.start();
  await page.addInitScript(COLLECT_SHIFTS);
  // The run waits for the device until its page is there, so that all its events arrive on it.
  const before = await startSft(world, 100_000), run = await startSft(world, 100);
  await openRun(page, world, run);
  await inState(page, "queued");
  await world.api("POST", `/v1/runs/${before.id}/cancel`, { at: "now" });
  await inState(page, "completed");
  await chartWith(page, "loss/sft", { values: 100 }).waitFor();
  // The legend has the last value, which its chart got after it was made.
  const { last_metrics } = await world.api<Run>("GET", `/v1/runs/${run.id}`);
  const legend = chartWith(page, "loss/sft", { values: 100 }).locator(".u-value");
  await legend.getByText(numberText(last_metrics["loss/sft"]), { exact: true }).waitFor();
  let events = 0;
  const headers = { authorization: `Bearer ${TOKEN}` };
  for await (const _ of shownEvents(`${world.url}/v1/runs/${run.id}/events`, 0, headers)) events++;
  assert.ok(events >= 200, String(events));
  assert.deepEqual(await page.evaluate("globalThis.shifts"), []);
});

browserTest("nothing moves while the attempts and evaluations of a run arrive", async (page) => {
  await using world = await World.start();
  await page.addInitScript(COLLECT_SHIFTS);
  const before = await startSft(world, 100_000);
  const params = { "evaluation.every_updates": 1 };
  const run = await world.startRun({ name: "evaluated", budget: { updates: 2 }, params });
  await openRun(page, world, run);
  await inState(page, "queued");
  await world.api("POST", `/v1/runs/${before.id}/cancel`, { at: "now" });
  await inState(page, "completed");
  await chartWith(page, "eval/reward_mean", { values: 2 }).waitFor();
  await chartWith(page, "reward/mean", { values: 2 }).waitFor();
  assert.deepEqual(await page.evaluate("globalThis.shifts"), []);
});

browserTest("a refusal and a failure that come late move nothing", async (page) => {
  await using world = await World.start();
  const run = await startSft(world, 100_000),
    tabs = page.getByRole("navigation", { name: "views of this run" });
  await openRun(page, world, run);
  await chartWith(page, "loss/sft", { values: 3 }).waitFor();
  const before = await tabs.boundingBox();

  // The server refuses nothing here, and the run does not fail.
  const detail = "a refusal ".repeat(20), headers = { "content-type": "application/problem+json" };
  const problem = {
    type: "/conflict",
    title: "Conflict",
    status: 409,
    detail,
    trace_id: "",
    errors: [],
    meta: {},
  };
  await page.route(
    "**/pause",
    (route) => route.fulfill({ status: 409, headers, body: JSON.stringify(problem) }),
  );
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("alert").getByText("a refusal").waitFor();
  assert.deepEqual(await tabs.boundingBox(), before);
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("alert").waitFor({ state: "detached" });

  const error = { reason: "out_of_memory", detail: "a failure ".repeat(50), update: 1, trace_id: null };
  const failed = { ...await world.api<Run>("GET", `/v1/runs/${run.id}`), state: "failed", error };
  await page.route(`**/v1/runs/${run.id}`, (route) => route.fulfill({ json: failed }));
  await inState(page, "failed");
  await page.getByRole("status").getByText("out of memory").waitFor();
  assert.deepEqual(await tabs.boundingBox(), before);
});

browserTest(
  "a run gets another learning rate and name, is cancelled and deleted, and the focus stays",
  async (page) => {
    await using world = await World.start();
    const run = await startSft(world, 100_000), focused = page.locator(":focus");
    const press = async (name: string, then = name) => {
      await page.getByRole("button", { name, exact: true }).press("Enter");
      await focused.and(page.getByRole("button", { name: then, exact: true })).waitFor();
    };
    const answers = async () => await world.api<Run>("GET", `/v1/runs/${run.id}`);
    await openRun(page, world, run);
    await chartWith(page, "loss/sft", { values: 2 }).waitFor();
    await press("Pause");
    await inState(page, "paused");
    await page.getByLabel("Learning rate").fill("0.0007");
    await press("Set");
    await page.getByRole("status").getByText("Learning rate 0.0007 from the next update").waitFor();
    assert.equal(await page.getByLabel("Learning rate").inputValue(), "0.0007");

    await press("Edit");
    await page.getByLabel("Name").fill("another name");
    await page.getByLabel("Tags").fill("night, sweep");
    await press("Save", "Edit");
    await page.getByRole("heading", { name: "another name", level: 1 }).waitFor();
    assert.deepEqual((await answers()).tags, ["night", "sweep"]);

    await press("Cancel …", "Let it be");
    await press("Let it be", "Cancel …");
    assert.equal((await answers()).state, "paused");
    await press("Cancel …", "Let it be");
    await press("Cancel for good", "Cancel …");
    await inState(page, "cancelled");
    await press("Delete …", "Keep it");
    await page.getByRole("button", { name: "Delete “another name” for good" }).press("Enter");
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    assert.deepEqual((await world.api<{ runs: Run[] }>("GET", "/v1/runs")).runs, []);
  },
);

/** Kinds of events that are in the journal. */
const JOURNAL_KINDS = [
  ...["state", "evaluation", "checkpoint", "artifact", "log", "warning", "command", "end"],
];

browserTest("a page whose server dies and comes back has every event once", async (page) => {
  await using world = await World.start();
  const run = await startSft(world, 100_000);
  await openRun(page, world, run);
  await chartWith(page, "loss/sft", { values: 3 }).waitFor();
  await world.stop("SIGKILL");
  await page.getByText("The server is away; trying again …").waitFor();
  await world.startAgain();
  await inState(page, "interrupted");
  await page.getByRole("button", { name: "Resume" }).click();
  await inState(page, "running");
  await chartWith(page, "loss/sft", { values: 3 }).waitFor();
  await page.getByRole("button", { name: "Cancel …" }).click();
  await page.getByRole("button", { name: "Cancel for good" }).click();
  await inState(page, "cancelled");

  await page.getByRole("link", { name: "Journal" }).click();
  let expected = 0;
  const headers = { authorization: `Bearer ${TOKEN}` };
  for await (const { kind } of shownEvents(`${world.url}/v1/runs/${run.id}/events`, 0, headers)) {
    if (JOURNAL_KINDS.includes(kind)) expected++;
  }
  const entries = page.getByRole("list", { name: /^journal/ }).getByRole("listitem");
  await entries.nth(expected - 1).waitFor();
  assert.equal(await entries.count(), expected);
  // The last event is there, and so is all that came before it.
  await page.getByRole("link", { name: "Charts" }).click();
  const { samples } = await world.api<{ samples: { name: string }[] }>(
    "GET",
    `/v1/runs/${run.id}/metrics?names=loss/sft`,
  );
  assert.equal(await valuesOf(page, "loss/sft", { least: samples.length }), samples.length);
});

/** A proxy that has a server under a path prefix, and nothing else. It passes answers on as they come. */
function underPrefix(prefix: string, { url }: World): Disposable & { site: string } {
  const abort = new AbortController(), { signal } = abort;
  const { addr } = Deno.serve(
    { hostname: "127.0.0.1", port: 0, signal, onListen: () => {} },
    async (request) => {
      const { pathname, search, origin } = new URL(request.url), headers = new Headers(request.headers);
      if (!pathname.startsWith(`${prefix}/`)) return new Response(null, { status: 404 });
      headers.delete("host");
      if (headers.get("origin") === origin) headers.set("origin", url);
      const { method, body, signal } = request;
      return await fetch(`${url}${pathname.slice(prefix.length)}${search}`, { method, headers, body, signal })
        .catch(() => new Response(null, { status: 502 }));
    },
  );
  // A stream of events ends when its connection is closed.
  return { site: `http://127.0.0.1:${addr.port}`, [Symbol.dispose]: () => abort.abort() };
}

browserTest("behind a proxy with a path prefix a run is followed, paused and downloaded", async (page) => {
  await using world = await World.start();
  const prefix = "/team/svc", run = await startSft(world, 100_000), outside: string[] = [];
  using proxy = underPrefix(prefix, world);
  const home = `${proxy.site}${prefix}/`;
  page.on("request", (request) => {
    if (!request.url().startsWith(home) && !request.url().startsWith("data:")) outside.push(request.url());
  });
  await page.goto(`${home}#/runs/${run.id}`);
  await logIn(page, TOKEN);
  const values = await valuesOf(page, "loss/sft", { least: 1 });
  await chartWith(page, "loss/sft", { values: values + 1 }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await inState(page, "paused");
  await page.getByRole("link", { name: "Checkpoints and files" }).click();
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: /config\.toml$/ }).click(),
  ]);
  assert.match(await Deno.readTextFile(await download.path()), /^algorithm = "sft"$/m);
  assert.deepEqual(outside, []);
});
