/**
 * Long tests with random moments, whose results are committed: `deno task soak <part> [--times <n>] [--seed <n>]`.
 *
 *   kills         kills a server that trains, 200 times: docs/experiments/soak_kills.json
 *   token_timing  times the refusal of 2 x 100,000 tokens: docs/experiments/soak_token_timing.json
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../core/files.ts";
import { soakKills } from "./soak/kills.ts";
import { soakTokenTiming } from "./soak/token_timing.ts";

const RESULTS = fileURLToPath(new URL("../docs/experiments/", import.meta.url));

async function writeResult(part: string, result: object): Promise<void> {
  console.log(result);
  await writeFileAtomic(`${RESULTS}soak_${part}.json`, `${JSON.stringify(result, null, 1)}\n`);
}

if (import.meta.main) {
  const string = { type: "string" } as const;
  const { values, positionals: [part] } = parseArgs({
    options: { times: string, seed: string },
    allowPositionals: true,
  });
  const seed = Number(values.seed ?? 1);
  if (part === "token_timing") {
    const result = soakTokenTiming({ samples: Number(values.times ?? 100_000), seed });
    await writeResult(part, { seed, ...result });
    Deno.exit(result.differs ? 1 : 0);
  }
  if (part !== "kills") {
    console.error("soak: name a part: kills or token_timing");
    Deno.exit(2);
  }
  const result = await soakKills({
    kills: Number(values.times ?? 200),
    seed,
    onKill: (kills, state) => console.log(`kill ${kills}: ${state}`),
  });
  await writeResult(part, { seed, ...result });
  const is_sound = result.different.length + result.lost_writes + result.lost_events === 0;
  Deno.exit(is_sound ? 0 : 1);
}
