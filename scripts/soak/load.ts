/** Ten thousand requests, a thousand plans and five thousand followers at once, while a run trains. */

import { fileURLToPath } from "node:url";
import { memoryOf, startTraining } from "../bench_service/training_server.ts";
import type { ManyResult } from "./many_clients.ts";
import type { SoakPart } from "./part.ts";

const CLIENTS = fileURLToPath(new URL("many_clients.ts", import.meta.url));
const LIMIT_MS = 1000, LIMIT_BYTES = 500e6;

/** A2: no wrong answer, and an end to every wait. */
export const load: SoakPart = {
  what: "10,000 GETs, 1,000 plans and 5,000 followers at once, while a run trains",
  full: { count: 10_000, minutes: Infinity },
  async run({ count, say }) {
    await using training = await startTraining();
    const { url, run, server } = training;
    const config = await (await fetch(`${url}/v1/runs/${run}/artifacts/config`)).text();
    const [, model] = /path = (".*")/.exec(config)!, [, data] = /data = (".*")/.exec(config)!;
    const plan = `{"recipe":"sft","model":${model},"data":${data},"params":{"training.ctx":640}}`;
    const numbers = [count, Math.ceil(count / 10), Math.ceil(count / 2)].map(String);
    say(`${numbers[0]} GETs, ${numbers[1]} plans, ${numbers[2]} followers`);
    const { stdout, success } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", CLIENTS, url, run, ...numbers],
      env: { SOAK_PLAN: plan },
      stderr: "inherit",
    }).output();
    if (!success) throw new Error("The clients failed");
    const result: ManyResult = JSON.parse(new TextDecoder().decode(stdout));
    const { peak: rss_bytes } = await memoryOf(server.child.pid);
    const failures: string[] = [];
    if (result.wrong > 0) failures.push(`${result.wrong} answers are wrong: ${result.spread.join(", ")}`);
    if (result.wrong_followers > 0) failures.push(`${result.wrong_followers} followers missed events`);
    if (result.get_ms.p99 > LIMIT_MS) failures.push(`GET takes ${result.get_ms.p99} ms (p99)`);
    if (rss_bytes > LIMIT_BYTES) failures.push(`the server takes ${Math.round(rss_bytes / 1e6)} MB`);
    return { failures, ...result, rss_bytes };
  },
};
