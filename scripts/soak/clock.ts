/** Sets the clock of a server and its runs by up to an hour while a run trains and links are used (libfaketime). */

import { Rng, rngKey } from "../../core/random.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { shownEvents } from "../../tests/shown_events.ts";
import { smallSft } from "../../tests/small_sft.ts";
import { firstOf, rounded, sleep, type SoakPart } from "./part.ts";

const LIBRARIES = ["x86_64", "aarch64"].map((machine) =>
  `/usr/lib/${machine}-linux-gnu/faketime/libfaketime.so.1`
);
const HOUR_SECONDS = 3600, LINK_SECONDS = 60, EVERY_MS = 1000;
/** Updates of the run for each jump: more than it can train. */
const UPDATES = 100;
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
  /** The wall clock of the run. */
  time_ms: number;
  eta_seconds: number;
  /** What the updates so far took a client, for those to come. */
  expected_seconds: number;
}

async function estimatesOf(url: string, updates: number): Promise<Estimate[]> {
  const found: Estimate[] = [], started = performance.now();
  for await (const { kind, data } of shownEvents(url, 0, TOKEN)) {
    if (kind !== "update") continue;
    const update = Number(data.update), seconds = (performance.now() - started) / 1000;
    const expected_seconds = (updates - update) * seconds / update;
    const time_ms = Date.parse(String(data.time));
    found.push({ update, time_ms, eta_seconds: Number(data.eta_seconds), expected_seconds });
  }
  return found;
}

/** Lets time pass with a jump each second. @returns What was wrong with links. */
async function jump(
  { offset, makeLink }: { offset: string; makeLink: () => Promise<Link> },
  { count, seed, say }: { count: number; seed: number; say: (text: string) => void },
): Promise<string[]> {
  const failures: string[] = [], random = new Rng(rngKey(seed, "clock")), links = [await makeLink()];
  for (let jumps = 1; jumps <= count; jumps++) {
    const sign = random.below(2) === 0 ? "+" : "-";
    await Deno.writeTextFile(offset, `${sign}${random.below(HOUR_SECONDS + 1)}\n`);
    await sleep(EVERY_MS);
    for (const link of links) failures.push(...[await linkProblem(link) ?? []].flat());
    if (jumps % 10 !== 0) continue;
    links.push(await makeLink());
    say(`${jumps} of ${count} jumps`);
  }
  return failures;
}

/** D7: links, budgets and estimates do not depend on the wall clock. */
export const clock: SoakPart = {
  what: "sets the clock by an hour, each second, while a run trains (needs apt-get install faketime)",
  full: { count: 180, minutes: Infinity },
  async run(options) {
    const updates = UPDATES * options.count;
    let failures: string[] = [], estimates: Estimate[] = [];
    await withFolder(async (folder) => {
      const root = `${folder}/root`, offset = `${folder}/offset`;
      await Deno.mkdir(root);
      await Deno.writeTextFile(offset, "+0\n");
      const { recipe } = await smallSft(root, { updates });
      const keys = `auth_token = "soak"\npath_roots = [${JSON.stringify(root)}]\n`;
      const server = await ServerProcess.start({
        config: await serverConfig(folder, keys),
        env: {
          ...{ LD_PRELOAD: await library(), FAKETIME_TIMESTAMP_FILE: offset, FAKETIME_NO_CACHE: "1" },
          FAKETIME_DONT_FAKE_MONOTONIC: "1",
        },
      });
      try {
        const { id } = await api(`${server.url}/v1/runs`, recipe), path = `${server.url}/v1/runs/${id}`;
        const told = estimatesOf(`${path}/events`, updates);
        const makeLink = async () => {
          const made = performance.now(), { url } = await api(`${path}/artifacts/events/link`);
          return { url: `${server.url}${url}`, made };
        };
        failures = await jump({ offset, makeLink }, options);
        await api(`${path}/cancel`, { at: "boundary", checkpoint: false });
        estimates = await told;
      } finally {
        await server.stop();
      }
    });
    const times = estimates.map(({ time_ms }) => time_ms);
    const jumped_seconds = Math.round((Math.max(...times) - Math.min(...times)) / 1000);
    if (!(jumped_seconds > HOUR_SECONDS / 10)) {
      failures.push(`the run's clock moved by ${jumped_seconds} s only`);
    }
    for (const { update, eta_seconds, expected_seconds } of estimates) {
      if (eta_seconds >= 0 && eta_seconds <= 2 * expected_seconds) continue;
      failures.push(`update ${update}: ${eta_seconds} s are estimated, and ${expected_seconds} s expected`);
    }
    const ratios = estimates.map(({ eta_seconds, expected_seconds }) => eta_seconds / expected_seconds);
    const of_expected = { least: rounded(Math.min(...ratios)), most: rounded(Math.max(...ratios)) };
    return {
      failures: firstOf(failures),
      jumps: options.count,
      jumped_seconds,
      updates: times.length,
      of_expected,
    };
  },
};
