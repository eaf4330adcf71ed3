/** Small runs, one after the other, with everything that clients do around them; and what the server keeps of it. */

import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { shownEvents } from "../../tests/shown_events.ts";
import { smallSft } from "../../tests/small_sft.ts";
import { memoryOf } from "../bench_service/training_server.ts";
import { firstOf, rounded, sleep, type SoakPart } from "./part.ts";

/** Updates of a run. */
const UPDATES = 50;
/** Runs before the first sample: caches fill up, and code is compiled. */
const WARM_UP_RUNS = 5;
/** Runs between two samples. */
const RUNS_PER_SAMPLE = 5;
/** A job's process waits this long for another job. */
const IDLE_MS = 31_000;
/** Updates that a busy server makes in a day, which the soak does as fast as the machine can. */
const UPDATES_PER_DAY = 10_000;
const BYTES_PER_HOUR_OF_A_DAY = 1e6;
/** With fewer the slope is that of the garbage collector. */
const MIN_UPDATES_FOR_SLOPE = 1000;
const JSON_TYPE = { "content-type": "application/json" };

/** What a server has when nobody asks anything. */
interface Sample {
  updates: number;
  rss_bytes: number;
  open_files: number;
  processes: number;
}

async function api(url: string, init?: RequestInit): Promise<Record<string, unknown>> {
  const response = await fetch(url, init), text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return text === "" ? {} : JSON.parse(text);
}

/** One run from its creation to its deletion, and requests of every kind around it. */
async function liveOnce(url: string, recipe: object, n: number): Promise<number> {
  const { id } = await api(`${url}/v1/runs`, {
    method: "POST",
    headers: JSON_TYPE,
    body: JSON.stringify(recipe),
  });
  const path = `${url}/v1/runs/${id}`;
  let updates = 0;
  const followers = [0, 1, 2].map(async () => {
    for await (const { kind } of shownEvents(`${path}/events`, 0)) if (kind === "update") updates++;
  });
  const dataset = await api(`${url}/v1/datasets`, {
    ...{ method: "POST", headers: { "content-type": "application/x-ndjson" } },
    body: `{"text":"row ${n}"}\n`.repeat(1000),
  });
  await api(`${url}/v1/datasets/${dataset.id}/preview`);
  await api(`${url}/v1/datasets/${dataset.id}`, { method: "DELETE" });
  await Promise.all(followers);
  await api(`${path}/metrics`);
  await fetch(`${path}/artifacts/adapter`).then((response) => response.bytes());
  await fetch(`${url}/v1/nothing`).then((response) => response.body?.cancel());
  await api(path, { method: "DELETE" });
  return updates / followers.length;
}

function children(pid: number): number {
  let count = 0;
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = Deno.readTextFileSync(`/proc/${name}/stat`);
      if (Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]) === pid) count++;
    } catch { /* it has just ended */ }
  }
  return count;
}

/** Samples the server when it is idle. */
async function sample(pid: number, updates: number): Promise<Sample> {
  await sleep(IDLE_MS);
  const open_files = [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
  return { updates, rss_bytes: (await memoryOf(pid)).now, open_files, processes: children(pid) };
}

/** Bytes an hour of the day that the updates stand for: the slope of a line through the samples (least squares). */
function slope(samples: readonly Sample[]): number {
  const n = samples.length,
    x = samples.map(({ updates }) => 24 * updates / UPDATES_PER_DAY),
    y = samples.map(({ rss_bytes }) => rss_bytes);
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / n;
  const [mx, my] = [mean(x), mean(y)];
  const over = x.reduce((sum, value, i) => sum + (value - mx) * (y[i]! - my), 0);
  return over / x.reduce((sum, value) => sum + (value - mx) ** 2, 0);
}

/** D8: memory, open files and processes stay as they are. */
export const endurance: SoakPart = {
  what: "trains 10,000 small updates in many runs, a day's work, and watches memory, files and processes",
  full: { count: UPDATES_PER_DAY, minutes: Infinity },
  async run({ count, minutes, say }) {
    const samples: Sample[] = [], failures: string[] = [], started = performance.now();
    let updates = 0, runs = 0;
    await withFolder(async (folder) => {
      const root = `${folder}/root`;
      await Deno.mkdir(root);
      const { recipe } = await smallSft(root, { updates: UPDATES });
      const config = await serverConfig(
        folder,
        `path_roots = [${JSON.stringify(root)}]\nmax_queued_runs = 1\n`,
      );
      const server = await ServerProcess.start({ config }), { pid } = server.child;
      try {
        let is_last = false;
        while (!is_last) {
          updates += await liveOnce(server.url, recipe, runs++);
          is_last = updates >= count || performance.now() - started >= minutes * 60_000;
          if (!is_last && (runs <= WARM_UP_RUNS || runs % RUNS_PER_SAMPLE !== 0)) continue;
          samples.push(await sample(pid, updates));
          const { rss_bytes, open_files, processes } = samples.at(-1)!;
          say(
            `${updates} updates: ${
              Math.round(rss_bytes / 1e6)
            } MB, ${open_files} files, ${processes} processes`,
          );
        }
      } finally {
        await server.stop();
      }
    });
    const first = samples[0]!, last = samples.at(-1)!;
    const is_long = last.updates - first.updates >= MIN_UPDATES_FOR_SLOPE;
    const bytes_per_hour_of_a_day = is_long ? rounded(slope(samples)) : null;
    if (bytes_per_hour_of_a_day !== null && bytes_per_hour_of_a_day > BYTES_PER_HOUR_OF_A_DAY) {
      failures.push(`memory rises by ${bytes_per_hour_of_a_day} bytes an hour of the day`);
    }
    if (last.open_files > first.open_files) {
      failures.push(`open files: ${first.open_files}, then ${last.open_files}`);
    }
    if (last.processes > first.processes) {
      failures.push(`processes: ${first.processes}, then ${last.processes}`);
    }
    return {
      failures: firstOf(failures),
      runs,
      updates,
      bytes_per_hour_of_a_day,
      first,
      last,
      rss_megabytes: samples.map(({ rss_bytes }) => Math.round(rss_bytes / 1e6)),
    };
  },
};
