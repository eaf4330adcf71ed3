/**
 * Requests at a fixed rate, each timed from the moment at which it was due: a server that falls behind is not asked less.
 * Started as a process of its own, `load.ts <url> <per second> <seconds>`, it prints what it measured as JSON.
 */

/** The times are in milliseconds. */
export interface LoadResult {
  per_second: number;
  wrong: number;
  p50: number;
  p99: number;
  max: number;
}

/** In the first seconds connections open and code is compiled, on both sides; these requests are not counted. */
const WARM_UP_SECONDS = 5;

/** How many requests may wait for an answer; a request that is due then waits in line, and its time runs. */
const CONNECTIONS = 64;

/** The value below which a share of the values lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

async function load(url: string, per_second: number, seconds: number): Promise<LoadResult> {
  const warm_up = per_second * WARM_UP_SECONDS, total = warm_up + per_second * seconds;
  const started = performance.now(), took: number[] = [];
  let next = 0, wrong = 0;
  const client = async () => {
    for (let i = next++; i < total; i = next++) {
      const due = started + 1000 * i / per_second, early = due - performance.now();
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      const response = await fetch(url), body = await response.json();
      if (response.status !== 200 || !Array.isArray(body.runs)) wrong++;
      if (i >= warm_up) took.push(performance.now() - due);
    }
  };
  await Promise.all(Array.from({ length: CONNECTIONS }, client));
  const elapsed = (performance.now() - started) / 1000;
  return {
    per_second: total / elapsed,
    wrong,
    p50: percentile(took, 0.5),
    p99: percentile(took, 0.99),
    max: percentile(took, 1),
  };
}

if (import.meta.main) {
  const [url, per_second, seconds] = Deno.args;
  console.log(JSON.stringify(await load(url!, Number(per_second), Number(seconds))));
}
