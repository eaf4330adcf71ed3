/** Limits of containers and their engine, each with an engine that misbehaves: it hangs, is slow or floods. */

import { deepEqual, equal, notEqual, rejects } from "node:assert/strict";
import { ManualClock } from "../../../core/clock_fake.ts";
import { withFolder } from "../../../tests/folder.ts";
import { askEngine, engineReason, findEngine, MAX_ANSWER_BYTES, QUOTED_CHARS } from "../container_engine.ts";
import { FAKE_ENGINE, fakeEngine, labContainer } from "../container_testing.ts";
import { GRACE_MS, RunningContainer } from "./container.ts";
import { COPY_TIMEOUT_MS, WorkspaceCopy } from "./kept_files.ts";
import { CLEAN_TIMEOUT_MS, ContainerPool, MAX_STARTING } from "./pool.ts";

const NEVER = new AbortController().signal;

/** The script of an engine whose containers do something after their start; all else succeeds without effect. */
const engineOf = (container: string) => `[ "$1" = run ] || exit 0\necho ready\n${container}`;

/** Reads no request, and does not end by itself. */
const HANGS = engineOf("exec sleep 1000");

function limitTest(name: string, fn: (folder: string) => Promise<void>): void {
  const ignore = Deno.build.os === "windows";
  Deno.test({ name, ignore, sanitizeOps: true, sanitizeResources: true, fn: () => withFolder(fn) });
}

/** Starts containers of an engine that is a script. */
async function starterOf(folder: string, script: string, clock: ManualClock) {
  const program = await fakeEngine(folder, script);
  const made = labContainer({ engine: { ...FAKE_ENGINE, program }, clock });
  return (signal = NEVER) => RunningContainer.start(made, "svc-test", signal);
}

const tick = () => new Promise((resolve) => setTimeout(resolve, 1));

async function untilAsleep(clock: ManualClock): Promise<void> {
  while (clock.sleeping === 0) await tick();
}

/** Moves a clock until some work is done. */
async function moved<T>(clock: ManualClock, work: Promise<T>): Promise<T> {
  let is_done = false;
  work.catch(() => {}).finally(() => is_done = true);
  while (!is_done) {
    await tick();
    await clock.advance(100);
  }
  return await work;
}

limitTest(
  "a container that is not clean within CLEAN_TIMEOUT_MS is ended, and the next attempt has another",
  async (folder) => {
    const clock = new ManualClock(), start = await starterOf(folder, HANGS, clock);
    const pool = new ContainerPool({ max_live: 1, reuse: "workspace", start });
    const first = await pool.acquire(NEVER);
    pool.release(first);
    const next = pool.acquire(NEVER);
    await untilAsleep(clock);
    await clock.advance(CLEAN_TIMEOUT_MS - 1);
    equal(clock.sleeping, 1, "it is still being cleaned");
    await clock.advance(1);
    await untilAsleep(clock);
    equal(first.is_usable, true);
    await clock.advance(GRACE_MS);
    while (first.is_usable) await tick();
    notEqual(await moved(clock, next), first);
    await moved(clock, pool.close());
  },
);

limitTest("at most MAX_STARTING containers start at once", async (folder) => {
  const start = await starterOf(folder, engineOf("exec cat >/dev/null"), new ManualClock());
  const starts: PromiseWithResolvers<RunningContainer>[] = [];
  const pool = new ContainerPool({
    ...{ max_live: 3 * MAX_STARTING, reuse: "never" },
    start(signal) {
      const started = Promise.withResolvers<RunningContainer>();
      signal.addEventListener("abort", () => started.reject(signal.reason));
      starts.push(started);
      return started.promise;
    },
  });
  const attempts = Array.from({ length: 2 * MAX_STARTING }, () => pool.acquire(NEVER));
  const others = Promise.allSettled(attempts.slice(1));
  equal(starts.length, MAX_STARTING);
  starts[0]!.resolve(await start());
  await attempts[0];
  equal(starts.length, MAX_STARTING + 1);
  await pool.close();
  deepEqual((await others).map(({ status }) => status), attempts.slice(1).map(() => "rejected"));
});

limitTest("a copy of a workspace that is not made within COPY_TIMEOUT_MS is given up", async (folder) => {
  const clock = new ManualClock(), machine = new ManualClock();
  const container = await (await starterOf(folder, HANGS, machine))();
  const copying = rejects(WorkspaceCopy.make(container, folder, { signal: NEVER, clock }), {
    code: "environment_failed",
    message: "Cannot use the container's files: f_pack took too long",
  });
  await untilAsleep(clock);
  await clock.advance(COPY_TIMEOUT_MS - 1);
  equal(clock.sleeping, 1, "it is still being made");
  await clock.advance(1);
  await untilAsleep(machine);
  await machine.advance(GRACE_MS);
  await copying;
  deepEqual((await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name), ["engine"]);
  await moved(machine, container.end());
});

limitTest(
  "MAX_ANSWER_BYTES of each output of an engine are kept, and QUOTED_CHARS are quoted",
  async (folder) => {
    const flood = (char: string) => `head -c ${3 * MAX_ANSWER_BYTES} /dev/zero | tr '\\0' ${char}`;
    const program = await fakeEngine(folder, `${flood("x")}\n${flood("y")} >&2\nprintf end >&2\nexit 3`);
    const { code, stdout, stderr } = await askEngine(program, []);
    deepEqual([code, stdout, stderr], [3, "x".repeat(MAX_ANSWER_BYTES), "y".repeat(MAX_ANSWER_BYTES)]);
    equal(engineReason({ stderr: `${stderr}end` }), `${"y".repeat(QUOTED_CHARS - 3)}end`);
    const quoted = RegExp(`does not answer \\(y{${QUOTED_CHARS}}\\); start it$`);
    await rejects(findEngine({ programs: [program] }), { code: "infrastructure_failed", message: quoted });
  },
);
