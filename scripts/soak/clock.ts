/** Sets the clock of a server and its runs by up to an hour while a run trains and links are used (libfaketime). */

import { Rng, rngKey } from "../../core/random.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { shownEvents } from "../../tests/shown_events.ts";
import { smallSft } from "../../tests/small_sft.ts";
import { firstOf, rounded, sleep, type SoakOptions, type SoakPart, type SoakResult } from "./part.ts";

const LIBRARIES = ["x86_64", "aarch64"].map((machine) =>
  `/usr/lib/${machine}-linux-gnu/faketime/libfaketime.so.1`
);
const HOUR_SECONDS = 3600, LINK_SECONDS = 60, EVERY_MS = 1000, JUMPS_PER_LINK = 10;
/** Updates of a run: more than it can train meanwhile. */
const UPDATES = 1_000_000;
/** How many of them are waited for, and the first one whose estimate is compared: before, starting counts too much. */
const LEAST_UPDATES = 30, FIRST_COMPARED = 5;
/** How far an estimate may be from what the updates so far took: runs slow down and speed up with the machine. */
const MOST_RATIO = 2;
/** What the run with a budget of time may take beyond it: an update that had begun, on a busy machine. */
const BUDGET_MINUTES = 1, BUDGET_SLACK_SECONDS = 60;
const TOKEN = { authorization: "Bearer soak" };

async function library(): Promise<string> {
  for (const path of LIBRARIES) {
    if (await Deno.stat(path).then(() => true, () => false)) return path;
  }
  throw new Error("libfaketime is missing: apt-get install faketime");
}

async function api(url: string, body?: unknown): Promise<Record<string, unknown>> {
  const headers = { ...TOKEN, "content-type": "application/json" };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(url, { method: "POST", headers, ...sent }), answer = await response.json();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${JSON.stringify(answer)}`);
  return answer;
}

/** A link that is used again and again. */
interface Link {
  url: string;
  made: number;
}

/** What is wrong with a link's answer now; null when nothing is. */
async function linkProblem({ url, made }: Link): Promise<string | null> {
  const age = () => (performance.now() - made) / 1000, before = age();
  const { status, body } = await fetch(url);
  await body?.cancel();
  // It lives for at least 59 seconds, and for at most 60.
  const is_alive = age() < LINK_SECONDS - 1, is_dead = before > LINK_SECONDS;
  if (is_alive && status !== 200 || is_dead && status !== 401) {
    return `a link of ${before} s answers ${status}`;
  }
  return null;
}

interface Estimate {
  update: number;
  eta_seconds: number;
  /** What the updates so far took a client, for those to come. */
  expected_seconds: number;
}

/** A run on the server with its events, and when a client saw them on a clock that does not jump. */
async function* followed(path: string) {
  const started = performance.now();
  for await (const event of shownEvents(`${path}/events`, 0, TOKEN)) {
    yield { ...event, seconds: (performance.now() - started) / 1000 };
  }
}

/** Jumps each second, and uses links. */
class Jumper {
  jumps = 0;
  links_used = 0;
  readonly failures: string[] = [];
  readonly #random: Rng;

  constructor(readonly offset_path: string, seed: number) {
    this.#random = new Rng(rngKey(seed, "clock"));
  }

  /** @param makeLink Makes one that is used until the end. */
  async work(makeLink: () => Promise<Link>, signal: AbortSignal): Promise<void> {
    const links: Link[] = [];
    while (!signal.aborted) {
      if (this.jumps % JUMPS_PER_LINK === 0) links.push(await makeLink());
      const sign = this.#random.below(2) === 0 ? "+" : "-";
      await Deno.writeTextFile(this.offset_path, `${sign}${this.#random.below(HOUR_SECONDS + 1)}\n`);
      this.jumps++;
      await sleep(EVERY_MS);
      for (const link of links) this.failures.push(...[await linkProblem(link) ?? []].flat());
      this.links_used += links.length;
    }
  }
}

/** How far apart wall times are, in seconds. */
function range(times: readonly unknown[]): number {
  const ms = times.map((time) => Date.parse(String(time))).filter(Number.isFinite);
  return Math.round((Math.max(...ms) - Math.min(...ms)) / 1000);
}

/** Lets a run train until there were enough jumps and updates, then cancels it. */
async function estimatesOf(
  path: string,
  isEnough: (updates: number) => boolean,
): Promise<{ estimates: Estimate[]; times: unknown[] }> {
  const estimates: Estimate[] = [], times: unknown[] = [];
  let started = 0, is_cancelled = false;
  for await (const { kind, data, seconds } of followed(path)) {
    times.push(data.time);
    if (kind === "state" && data.state === "running") started = seconds;
    if (kind !== "update") continue;
    const update = Number(data.update), expected_seconds = (UPDATES - update) * (seconds - started) / update;
    estimates.push({ update, eta_seconds: Number(data.eta_seconds), expected_seconds });
    if (is_cancelled || !isEnough(estimates.length)) continue;
    is_cancelled = true;
    await api(`${path}/cancel`, { at: "boundary", checkpoint: false });
  }
  return { estimates, times };
}

/** The seconds for which a run trains, as a client sees it. */
async function trainingSeconds(path: string): Promise<number> {
  let started = NaN, ended = NaN;
  for await (const { kind, data, seconds } of followed(path)) {
    if (kind === "state" && data.state === "running") started = seconds;
    if (kind === "state" && data.state === "completed") ended = seconds;
  }
  return ended - started;
}

function wrongEstimates(estimates: readonly Estimate[]): { failures: string[]; of_expected: object } {
  const compared = estimates.filter(({ update }) => update >= FIRST_COMPARED), failures: string[] = [];
  const ratios = compared.map(({ eta_seconds, expected_seconds }) => eta_seconds / expected_seconds);
  for (const [i, ratio] of ratios.entries()) {
    if (ratio <= MOST_RATIO && ratio >= 1 / MOST_RATIO) continue;
    const { update, eta_seconds, expected_seconds } = compared[i]!;
    failures.push(`update ${update}: ${eta_seconds} s are estimated, and ${expected_seconds} s expected`);
  }
  return {
    failures,
    of_expected: { least: rounded(Math.min(...ratios)), most: rounded(Math.max(...ratios)) },
  };
}

/** A server whose clock, and its runs' clock, is what a file says. */
async function startServer(folder: string, offset_path: string): Promise<ServerProcess> {
  const keys = `auth_token = "soak"\npath_roots = [${
    JSON.stringify(`${folder}/root`)
  }]\nmax_queued_runs = 1\n`;
  return await ServerProcess.start({
    config: await serverConfig(folder, keys),
    env: {
      ...{ LD_PRELOAD: await library(), FAKETIME_TIMESTAMP_FILE: offset_path, FAKETIME_NO_CACHE: "1" },
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
  });
}

/** What the runs told, and what was wrong with it. */
interface Told {
  estimates: Estimate[];
  /** Wall times of events. */
  times: unknown[];
  /** For how long the run with a budget trained. */
  seconds: number;
}

function resultOf({ estimates, times, seconds }: Told, jumper: Jumper, server: ServerProcess): SoakResult {
  const { failures, of_expected } = wrongEstimates(estimates), least = BUDGET_MINUTES * 60;
  failures.push(...jumper.failures);
  // Also when it is not known.
  if (!(seconds >= least - 1 && seconds <= least + BUDGET_SLACK_SECONDS)) {
    failures.push(`a run with a budget of ${least} s trains for ${seconds} s`);
  }
  const jumped_seconds = { run: range(times), server: range(server.lines.map(({ time }) => time)) };
  for (const [whose, jumped] of Object.entries(jumped_seconds)) {
    if (jumped < HOUR_SECONDS) failures.push(`the clock of the ${whose} moved by ${jumped} s only`);
  }
  return {
    failures: firstOf(failures),
    ...{ jumps: jumper.jumps, jumped_seconds, links_used: jumper.links_used },
    ...{ updates: estimates.length, of_expected },
    budget_seconds: { given: least, taken: rounded(seconds) },
  };
}

async function soakClock(folder: string, { count, seed, say }: SoakOptions): Promise<SoakResult> {
  const root = `${folder}/root`, offset_path = `${folder}/offset`;
  await Deno.mkdir(root);
  await Deno.writeTextFile(offset_path, "+0\n");
  const { recipe } = await smallSft(root, { updates: UPDATES });
  const server = await startServer(folder, offset_path), runs = `${server.url}/v1/runs`;
  const stop = new AbortController(), jumper = new Jumper(offset_path, seed);
  try {
    const run = `${runs}/${(await api(runs, recipe)).id}`;
    const makeLink = async () => {
      const made = performance.now(), { url } = await api(`${run}/artifacts/events/link`);
      return { url: `${server.url}${url}`, made };
    };
    const measure = async () => {
      const told = await estimatesOf(run, (updates) => {
        if (updates % 10 === 0) say(`${jumper.jumps} of ${count} jumps, ${updates} updates`);
        return jumper.jumps >= count && updates >= LEAST_UPDATES;
      });
      const timed = await api(runs, { ...recipe, budget: { minutes: BUDGET_MINUTES } });
      return { ...told, seconds: await trainingSeconds(`${runs}/${timed.id}`) };
    };
    const [told] = await Promise.all([
      measure().finally(() => stop.abort()),
      jumper.work(makeLink, stop.signal),
    ]);
    return resultOf(told, jumper, server);
  } finally {
    await server.stop();
  }
}

/** D7: links, budgets and estimates do not depend on the wall clock. */
export const clock: SoakPart = {
  what: "sets the clock by an hour, each second, while runs train (needs apt-get install faketime)",
  full: { count: 180, minutes: Infinity },
  async run(options) {
    let result: SoakResult = { failures: [] };
    await withFolder(async (folder) => {
      result = await soakClock(folder, options);
    });
    return result;
  },
};
