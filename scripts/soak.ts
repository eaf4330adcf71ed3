/**
 * Long tests, whose results are committed: `deno task soak <part> [--count <n>] [--minutes <n>] [--seed <n>]`. A complete
 * run replaces the part's results in docs/experiments/soak.json, a shorter one is stored only where `--out <file>` says.
 * docs/reference/reliability.md says what each of them shows.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../core/files.ts";
import { currentCommit, machineName } from "./bench/report.ts";
import { bombs } from "./soak/bombs.ts";
import { clock } from "./soak/clock.ts";
import { containers } from "./soak/containers.ts";
import { damage } from "./soak/damage.ts";
import { datasets } from "./soak/datasets.ts";
import { endurance } from "./soak/endurance.ts";
import { gguf } from "./soak/gguf.ts";
import { kills } from "./soak/kills.ts";
import { load } from "./soak/load.ts";
import { rounded, type SoakPart } from "./soak/part.ts";
import { slow } from "./soak/slow.ts";
import { steps } from "./soak/steps.ts";
import { tokenTiming } from "./soak/token_timing.ts";

const RESULTS = fileURLToPath(new URL("../docs/experiments/soak.json", import.meta.url));

const PARTS: Readonly<Record<string, SoakPart>> = {
  bombs,
  clock,
  containers,
  damage,
  datasets,
  endurance,
  gguf,
  kills,
  load,
  slow,
  steps,
  token_timing: tokenTiming,
};

function usage(): string {
  const lines = Object.entries(PARTS).map(([name, { what }]) => `  ${name.padEnd(12)} ${what}`);
  return `soak: name a part:\n${lines.join("\n")}`;
}

const asText = (value: unknown) => JSON.stringify(value, null, 1);

/** The results of all parts. */
async function stored(): Promise<object> {
  return JSON.parse(await Deno.readTextFile(RESULTS));
}

const loadAverage = () => rounded(Deno.loadavg()[0] ?? 0);

async function facts(): Promise<object> {
  return {
    ...{ machine: await machineName(), commit: await currentCommit(), deno: Deno.version.deno },
    time: new Date().toISOString(),
  };
}

if (import.meta.main) {
  const string = { type: "string" } as const;
  const { values, positionals: [name = ""] } = parseArgs({
    options: { count: string, minutes: string, seed: string, out: string },
    allowPositionals: true,
  });
  const part = Object.hasOwn(PARTS, name) ? PARTS[name] : undefined;
  if (!part) {
    console.error(usage());
    Deno.exit(2);
  }
  const { full } = part, seed = Number(values.seed ?? 1);
  const count = Number(values.count ?? full.count), minutes = Number(values.minutes ?? full.minutes);
  const is_complete = count >= full.count && minutes >= full.minutes;
  // A file that cannot be read is told before the long run.
  if (is_complete) await stored();
  const started = await facts(), started_ms = performance.now(), load_before = loadAverage();
  const { failures, ...measured } = await part.run({
    count,
    minutes,
    seed,
    say: (text) => console.error(text),
  });
  const bounds = Object.fromEntries(Object.entries({ count, minutes }).filter(([, n]) => Number.isFinite(n)));
  const result = {
    part: name,
    complete: is_complete,
    ...bounds,
    seed,
    passed: failures.length === 0,
    failures,
    ...measured,
    ...started,
    elapsed_seconds: Math.round((performance.now() - started_ms) / 1000),
    // Over the last minute, the soak included.
    load_average: { before: load_before, after: loadAverage() },
  };
  console.log(asText(result));
  if (values.out !== undefined) await writeFileAtomic(values.out, `${asText(result)}\n`);
  else if (is_complete) await writeFileAtomic(RESULTS, `${asText({ ...await stored(), [name]: result })}\n`);
  Deno.exit(failures.length === 0 ? 0 : 1);
}
