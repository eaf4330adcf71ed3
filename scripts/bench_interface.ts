/**
 * `deno task bench-interface [--quick]`: how smooth the web interface is in Chromium with 100,000 values of metrics and
 * 5,000 attempts. A frame's time is that between two callbacks of requestAnimationFrame; each line has the ratio to an
 * empty page of the same browser, which scrolls at the same speed. Prints each measurement and stores them in
 * docs/bench/interface.jsonl. Nothing asserts a time.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Locator, Page } from "playwright-core";
import { writeFileAtomic } from "../core/files.ts";
import { launchChromium } from "../tests/browser/browser.ts";
import { withFolder } from "../tests/folder.ts";
import { ViewServer } from "../tests/browser/world.ts";
import { currentCommit, machineName, round } from "./bench/report.ts";
import { type LargeRun, writeLargeRun } from "./bench_interface/large_run.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/interface.jsonl", import.meta.url));

/** 1,000 updates of 100 metrics, and 5,000 attempts. */
const LARGE: LargeRun = { updates: 1000, metrics: 100, groups: 500, attempts_per_group: 10 };
const QUICK: LargeRun = { updates: 20, metrics: 10, groups: 5, attempts_per_group: 4 };

/** Frames of a measurement. */
const FRAMES = 240, QUICK_FRAMES = 20;
const PIXELS_PER_FRAME = 40;
/** A page without contents, and as high as one with many. */
const EMPTY_PAGE = `<!doctype html><body><div style="height: 100000px"></div>`;

/** Collects the times of frames while each of them scrolls; turns back at the ends. */
const SCROLL = `(frames) => new Promise((resolve) => {
  const times = [];
  let last = performance.now(), step = ${PIXELS_PER_FRAME};
  const next = (now) => {
    times.push(now - last);
    last = now;
    if (times.length > frames) return resolve(times.slice(1));
    const before = scrollY;
    scrollBy(0, step);
    if (scrollY === before) step = -step;
    requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
})`;

/** Collects the times of frames until they are stopped. */
const START = `() => {
  globalThis.frames = { times: [], last: performance.now(), is_on: true };
  const next = (now) => {
    frames.times.push(now - frames.last);
    frames.last = now;
    if (frames.is_on) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}`;
const STOP = `() => (frames.is_on = false, frames.times.slice(1))`;

interface FrameTimes {
  frames: number;
  p50_ms: number;
  p95_ms: number;
  max_ms: number;
}

/** Quantiles of frame times. */
export function summary(times: readonly number[]): FrameTimes {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number) =>
    round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!);
  return { frames: times.length, p50_ms: at(0.5), p95_ms: at(0.95), max_ms: at(1) };
}

const call = <T>(page: Page, body: string, argument?: number) =>
  page.evaluate<T>(`(${body})(${argument === undefined ? "" : argument})`);

/** Zooms a chart in by dragging and out by a double click, again and again. */
async function zoomTimes(page: Page, chart: Locator, times: number): Promise<number[]> {
  await chart.scrollIntoViewIfNeeded();
  const { x, y, width, height } = (await chart.boundingBox())!, middle = y + height / 2;
  await call(page, START);
  for (let i = 0; i < times; i++) {
    await page.mouse.move(x + width * 0.3, middle);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.6, middle, { steps: 5 });
    await page.mouse.up();
    await page.mouse.dblclick(x + width * 0.5, middle);
  }
  return await call(page, STOP);
}

interface Measured extends FrameTimes {
  name: string;
  /** Until the page was complete. */
  load_ms?: number;
}

async function measure(
  page: Page,
  url: string,
  { frames, run }: { frames: number; run: LargeRun },
): Promise<Measured[]> {
  await page.setContent(EMPTY_PAGE);
  const measured: Measured[] = [{
    name: "empty page, scrolled",
    ...summary(await call(page, SCROLL, frames)),
  }];
  const open = async (address: string, complete: Locator) => {
    const started = performance.now();
    await page.goto(`${url}/#/runs/run_view${address}`);
    await complete.waitFor();
    return round(performance.now() - started);
  };
  const chart = page.getByRole("img", { name: /^reward\/mean\. .*: \d+ values/ })
    .locator("canvas");
  const points = `${run.updates * run.metrics} values in ${run.metrics} charts`;
  const load_ms = await open("", chart);
  measured.push({ name: `${points}, scrolled`, load_ms, ...summary(await call(page, SCROLL, frames)) });
  measured.push({
    name: `${points}, zoomed`,
    ...summary(await zoomTimes(page, chart, Math.ceil(frames / 20))),
  });
  const attempts = run.groups * run.attempts_per_group;
  const list_ms = await open(`/trajectories/${run.updates}`, page.getByRole("link", { name: "scenario-0" }));
  measured.push({
    name: `${attempts} attempts, scrolled`,
    load_ms: list_ms,
    ...summary(await call(page, SCROLL, frames)),
  });
  return measured;
}

if (import.meta.main) {
  const { values: { quick = false } } = parseArgs({ options: { quick: { type: "boolean" } } });
  const run = quick ? QUICK : LARGE, frames = quick ? QUICK_FRAMES : FRAMES;
  const browser = await launchChromium();
  const facts = {
    ...{ machine: await machineName(), commit: await currentCommit(), browser: browser.version() },
  };
  const lines = await withFolder(async (folder) => {
    await writeLargeRun(folder, run);
    await using view = await ViewServer.start(folder);
    const page = await browser.newPage({ viewport: { width: 1280, height: 720 } });
    const [empty, ...measured] = await measure(page, view.url, { frames, run });
    const [load_average] = Deno.loadavg(), time = new Date().toISOString();
    return [empty!, ...measured].map((line) => {
      const ratio_p95 = round(line.p95_ms / empty!.p95_ms);
      console.log({ ...line, ratio_p95 });
      return JSON.stringify({ bench: "interface", ...line, ratio_p95, ...facts, load_average, time });
    });
  });
  await browser.close();
  if (!quick) await writeFileAtomic(RESULTS, `${lines.join("\n")}\n`);
}
