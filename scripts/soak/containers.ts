/** Attempts in containers: many, several at once, some of which fail or are aborted, and nothing of them is left. */

import { containerEnvironments } from "../../agent/environment/container.ts";
import { containersOf, labOptions } from "../../agent/environment/container_testing.ts";
import { scenarioWith } from "../../agent/environment/environment_contract.ts";
import { firstOf, percentile, rounded, type SoakPart } from "./part.ts";

/** The containers alive at once. */
const MAX_LIVE = 8;

const VERIFY = { command: ["sh", "-c", 'test "$(cat answer)" = 42'] };

/** What attempts do besides their task. Each leaves processes, files or output that nobody asked for. */
const HABITS = [
  "true",
  "setsid sleep 1000 & (sleep 1000 &)",
  "head -c 5000000 /dev/zero",
  "cat /dev/zero > /tmp/full",
  "i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done",
  "kill -9 -1",
] as const;

export const containers: SoakPart = {
  what: `attempts in containers, ${MAX_LIVE} at once; none is left`,
  full: { count: 200, minutes: Infinity },
  async run({ count, say }) {
    const failures: string[] = [], rewards: number[] = [], acquire_ms: number[] = [], call_ms: number[] = [];
    const reused: Record<string, number> = {};
    for (const reuse of ["never", "workspace"] as const) {
      const options = await labOptions({ pool: { max_live: MAX_LIVE, reuse } });
      const factory = containerEnvironments(options);
      const names = new Set<string>();
      let next = 0, most = 0;
      const attempt = async (i: number) => {
        const controller = new AbortController(), { signal } = controller;
        const started = performance.now();
        const scenario = scenarioWith({
          // The last habit would end the line of setup too.
          setup: i % HABITS.length === HABITS.length - 1
            ? []
            : [`sh -c '${HABITS[i % HABITS.length]}'; true`],
          verify: VERIFY,
          summary: ["sh", "-c", HABITS[i % HABITS.length]!],
        });
        const environment = await factory.open(scenario, { seed: i, signal });
        acquire_ms.push(performance.now() - started);
        try {
          const write = { path: "answer", content: i % 2 === 0 ? "42" : "41" };
          const called = performance.now();
          await environment.call({ id: "1", name: "write_file", arguments: write }, signal);
          call_ms.push(performance.now() - called);
          await environment.state(signal).catch(() => {});
          const live = await containersOf(options.owners_folder);
          most = Math.max(most, live.length);
          for (const name of live) names.add(name);
          if (i % 10 === 9) return;
          const { reward } = await environment.grade(signal);
          if (reward !== (i % 2 === 0 ? 1 : 0)) failures.push(`attempt ${i} (${reuse}): reward ${reward}`);
          rewards.push(reward ?? 0);
        } finally {
          await environment.close();
        }
      };
      const worker = async () => {
        while (next < count / 2) {
          const i = next++;
          await attempt(i).catch((error) => failures.push(`attempt ${i} (${reuse}): ${error.message}`));
          if (i % 20 === 0) say(`${reuse}: attempt ${i}`);
        }
      };
      await Promise.all(Array.from({ length: MAX_LIVE }, worker));
      await factory.close();
      const left = await containersOf(options.owners_folder);
      if (left.length > 0) failures.push(`${left.length} containers are left`);
      if (most > MAX_LIVE) failures.push(`${most} containers at once`);
      reused[reuse] = names.size;
      await Deno.remove(options.owners_folder, { recursive: true });
    }
    return {
      failures: firstOf(failures),
      attempts: acquire_ms.length,
      graded: rewards.length,
      containers: reused,
      acquire_ms: { p50: rounded(percentile(acquire_ms, 0.5)), p95: rounded(percentile(acquire_ms, 0.95)) },
      call_ms: { p50: rounded(percentile(call_ms, 0.5)), p95: rounded(percentile(call_ms, 0.95)) },
    };
  },
};
