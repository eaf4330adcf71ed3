/**
 * Long tests with random moments, whose results are committed: `deno task soak <part> [--times <n>] [--seed <n>]`.
 *
 *   kills   kills a server that trains, 200 times: docs/experiments/soak_kills.json
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../core/files.ts";
import { soakKills } from "./soak/kills.ts";

const RESULTS = fileURLToPath(new URL("../docs/experiments/", import.meta.url));

if (import.meta.main) {
  const string = { type: "string" } as const;
  const { values, positionals: [part] } = parseArgs({
    options: { times: string, seed: string },
    allowPositionals: true,
  });
  const seed = Number(values.seed ?? 1);
  if (part !== "kills") {
    console.error("soak: name a part: kills");
    Deno.exit(2);
  }
  const result = await soakKills({
    kills: Number(values.times ?? 200),
    seed,
    onKill: (kills, state) => console.log(`kill ${kills}: ${state}`),
  });
  console.log(result);
  await writeFileAtomic(`${RESULTS}soak_kills.json`, `${JSON.stringify({ seed, ...result }, null, 1)}\n`);
  const is_sound = result.different.length + result.lost_writes + result.lost_events === 0;
  Deno.exit(is_sound ? 0 : 1);
}
