/** Tests for every environment with the toolset `files`, by what an environment promises. */

import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { parseScenario, type Scenario } from "../../data/scenario.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";
import type { Environment, EnvironmentFactory, EnvironmentGrade } from "./environment.ts";

export interface TestedEnvironments {
  factory: EnvironmentFactory;
  /** The clock for limits; a command's limit is 30 s. */
  clock: ManualClock;
  /** What closed environments left: folders, containers. */
  leftovers(): Promise<string[]>;
  /** Closes what the environments share; what that left. Absent: they share nothing. */
  close?(): Promise<string[]>;
  /** How texts show the folder of commands. Default: `.`. */
  workspace?: string;
  /** A program that exits with 128 and a signal's number cannot be told from one that the signal killed. */
  signal_statuses_are_signals?: true;
  /** Ends what the tests needed besides the factory. */
  end?(): Promise<void>;
}

type Checks = Readonly<Record<string, (tested: TestedEnvironments) => Promise<void>>>;

/** What every environment promises. */
export const TOOL_CHECKS: Checks = {
  "tools answer with the texts of their version": checkResults,
  "submit ends the trajectory without a result": checkSubmit,
  "no path leads out of the workspace": checkPaths,
  "setup runs in order, and a line that fails is the environment's failure": checkSetup,
  "the final state is the output of the summary": checkState,
  "two trajectories do not see each other": checkTwo,
};

/** What an environment promises that runs a scenario's `verify` itself. */
const VERIFICATION_CHECKS: Checks = {
  "verification gives the reward, or nothing": checkVerify,
  "a verification that never ends is killed with all it started": checkHang,
  "a verification tells how its command ended": checkEndings,
  "a verification that floods is read to its end": checkFlood,
  "an abort ends a verification": checkAbort,
  "protected files are restored before verification": checkProtect,
  "a command sees nothing of the service": checkIsolation,
};

/** The name of the tests, and which checks they have. */
export interface ContractOptions {
  name: string;
  ignore?: boolean | undefined;
  /** How texts show the folder of commands. */
  workspace?: string;
  /** Absent: all. */
  checks?: Checks;
}

/** Registers the tests. They share one environment factory. */
export function environmentContract(
  { name, ignore = false, workspace, checks = { ...TOOL_CHECKS, ...VERIFICATION_CHECKS } }: ContractOptions,
  open: () => Promise<TestedEnvironments>,
): void {
  Deno.test({
    name: `environment contract: ${name}`,
    ignore,
    sanitizeOps: true,
    sanitizeResources: true,
    async fn(t) {
      const tested = { ...await open(), ...(workspace !== undefined && { workspace }) };
      for (const [check, run] of Object.entries(checks)) {
        await t.step(check, async () => {
          await run(tested);
          deepEqual(await tested.leftovers(), [], "nothing is left");
        });
      }
      deepEqual(await tested.close?.() ?? [], [], "nothing is left at the end");
      await tested.factory.close();
      await tested.end?.();
    },
  });
}

const NEVER = new AbortController().signal;

export function scenarioWith(env: object): Scenario {
  return parseScenario({ id: "s", user: "u", metadata: { env: { toolset: "files", ...env } } }, {
    path: "x",
    line: 1,
  });
}

/** Opens an environment, uses it and closes it. */
async function withEnvironment(
  { factory }: TestedEnvironments,
  env: object,
  use: (environment: Environment) => Promise<void>,
): Promise<void> {
  const environment = await factory.open(scenarioWith(env), { seed: 1, signal: NEVER });
  try {
    await use(environment);
  } finally {
    await environment.close();
    await environment.close();
  }
}

async function result(
  environment: Environment,
  name: string,
  args: Record<string, unknown>,
): Promise<string | null> {
  const answer = await environment.call({ id: "c", name, arguments: args }, NEVER);
  deepEqual([answer.reward, answer.done], [null, false]);
  return answer.result;
}

/** The grade without the record of the command. */
async function graded(environment: Environment): Promise<Omit<EnvironmentGrade, "verification">> {
  const { verification: _, ...answer } = await environment.grade(NEVER);
  return answer;
}

const verifyBy = (line: string, more: object = {}) => ({ verify: { command: ["sh", "-c", line], ...more } });

async function checkResults(tested: TestedEnvironments): Promise<void> {
  const files = {
    "b.txt": "beta\n",
    "a/x": "",
    "é.txt": "naïve 🐢\r\n",
    "Z": "",
    "\u{1f422}": "",
    "\uff5e": "",
  };
  await withEnvironment(tested, { files }, async (environment) => {
    equal(await result(environment, "read_file", { path: "b.txt" }), "beta\n");
    equal(await result(environment, "read_file", { path: "./a/../é.txt" }), "naïve 🐢\r\n");
    equal(await result(environment, "read_file", { path: "a" }), "error: no such file");
    equal(await result(environment, "read_file", { path: "nothing" }), "error: no such file");
    equal(await result(environment, "list_dir", { path: "." }), "Z\na/\nb.txt\né.txt\n\uff5e\n\u{1f422}");
    equal(await result(environment, "list_dir", { path: "" }), "Z\na/\nb.txt\né.txt\n\uff5e\n\u{1f422}");
    equal(await result(environment, "list_dir", { path: "a" }), "x");
    equal(await result(environment, "list_dir", { path: "b.txt" }), "error: no such directory");
    equal(await result(environment, "write_file", { path: "n/m/o.txt", content: "new" }), "ok");
    equal(await result(environment, "read_file", { path: "n/m/o.txt" }), "new");
    equal(await result(environment, "list_dir", { path: "n" }), "m/");
    equal(await result(environment, "write_file", { path: "n", content: "" }), "error: cannot write");
    equal(await result(environment, "write_file", { path: "b.txt/x", content: "" }), "error: cannot write");
    equal(await result(environment, "write_file", { path: "u", content: "\ud800" }), "error: cannot write");
    equal(await result(environment, "write_file", { path: "b.txt", content: "" }), "ok");
    equal(await result(environment, "read_file", { path: "b.txt" }), "");
  });
}

async function checkSubmit(tested: TestedEnvironments): Promise<void> {
  await withEnvironment(tested, {}, async (environment) => {
    const answer = await environment.call({ id: "c", name: "submit", arguments: {} }, NEVER);
    deepEqual(answer, { result: null, reward: null, done: true });
  });
}

async function checkPaths(tested: TestedEnvironments): Promise<void> {
  const setup = [
    "ln -s /etc out",
    "ln -s / root",
    "ln -s ../../../../../../etc/passwd up",
    "ln -s loop loop",
    "mkdir in; ln -s in inside; ln -s ../in/y in/x",
    "mkfifo pipe",
  ];
  await withEnvironment(tested, { setup }, async (environment) => {
    const outside = [
      "..",
      "../x",
      "/etc/passwd",
      "a/../../b",
      "out/passwd",
      "root/etc/passwd",
      "up",
      "loop",
      "a\0b",
    ];
    for (const path of [...outside, "root/tmp/svc-escape", "out", "in/../../z"]) {
      equal(await result(environment, "read_file", { path }), "error: path outside workspace", path);
      equal(
        await result(environment, "write_file", { path, content: "!" }),
        "error: path outside workspace",
        path,
      );
      equal(await result(environment, "list_dir", { path }), "error: path outside workspace", path);
    }
    equal(await result(environment, "write_file", { path: "inside/y", content: "through" }), "ok");
    equal(
      await result(environment, "read_file", { path: "in/x" }),
      "through",
      "a link that stays inside works",
    );
    equal(await result(environment, "read_file", { path: "pipe" }), "error: no such file");
    equal(await result(environment, "write_file", { path: "pipe", content: "" }), "error: cannot write");
  });
}

async function checkSetup(tested: TestedEnvironments): Promise<void> {
  const setup = ["echo one > log", "echo two >> log; mkdir d", "cd d", "cat ../log > copy || cp log copy"];
  await withEnvironment(tested, { setup, files: { "log": "none" } }, async (environment) => {
    equal(
      await result(environment, "read_file", { path: "copy" }),
      "one\ntwo\n",
      "each line starts in the workspace",
    );
  });
  const opening = tested.factory.open(scenarioWith({ setup: ["true", "echo broken >&2; exit 7"] }), {
    seed: 1,
    signal: NEVER,
  });
  await rejects(opening, (error: unknown) => {
    ok(error instanceof ServiceError && error.code === "environment_failed");
    ok(/setup line 2 exited with status 7: broken$/.test(error.message), error.message);
    return true;
  });
}

async function checkVerify(tested: TestedEnvironments): Promise<void> {
  const env = verifyBy('test "$(cat out.txt)" = done', { reward_on_success: 2.5 });
  await withEnvironment(tested, env, async (environment) => {
    deepEqual(await graded(environment), { reward: 0, timed_out: false });
    equal(await result(environment, "write_file", { path: "out.txt", content: "done" }), "ok");
    deepEqual(await graded(environment), { reward: 2.5, timed_out: false });
  });
  // A verification that was killed or never started does not judge the attempt.
  for (
    const [line, reason] of [
      ["echo oops >&2; kill -9 $$", "was killed: oops"],
      ["exit 126", "exited with status 126"],
      ["no-such-program", "exited with status 127: "],
      ["chmod -x a; ./a", "exited with status 126: "],
    ] as const
  ) {
    await withEnvironment(tested, { files: { a: "" }, ...verifyBy(line) }, async (environment) => {
      const { failure, ...answer } = await graded(environment);
      deepEqual(answer, { reward: null, timed_out: false }, line);
      ok(failure?.startsWith(`Cannot verify: the command ${reason}`), failure);
    });
  }
  for (const code of [1, 2, 124, 125, 128, ...tested.signal_statuses_are_signals ? [] : [137], 255]) {
    await withEnvironment(tested, verifyBy(`exit ${code}`), async (environment) => {
      deepEqual(await graded(environment), { reward: 0, timed_out: false }, `exit ${code}`);
    });
  }
  await withEnvironment(tested, {}, async (environment) => {
    deepEqual(await graded(environment), { reward: null, timed_out: false });
  });
  await withEnvironment(tested, { verify: { command: ["no-such-program"] } }, async (environment) => {
    await rejects(environment.grade(NEVER), /Cannot run no-such-program: no such program/);
  });
}

async function checkState(tested: TestedEnvironments): Promise<void> {
  const summary = (line: string) => ({ files: { "a.txt": "old" }, summary: ["sh", "-c", line] });
  await withEnvironment(tested, summary("cat a.txt; pwd"), async (environment) => {
    await result(environment, "write_file", { path: "a.txt", content: "new\n" });
    equal(await environment.state(NEVER), `new\n${tested.workspace ?? "."}\n`);
  });
  await withEnvironment(tested, {}, async (environment) => equal(await environment.state(NEVER), null));
  await withEnvironment(tested, summary("echo out; echo wrong >&2; exit 3"), async (environment) => {
    await rejects(environment.state(NEVER), {
      code: "environment_failed",
      message: /Cannot summarise the result: the command exited with status 3: wrong$/,
    });
  });
}

/** Advances the clock as soon as something waits for it. */
async function expire(clock: ManualClock, delta_ms: number): Promise<void> {
  while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await clock.advance(delta_ms);
}

async function checkHang(tested: TestedEnvironments): Promise<void> {
  const line = "trap '' TERM INT; sleep 1000 & sleep 1000";
  await withEnvironment(tested, verifyBy(line), async (environment) => {
    const verified = environment.grade(NEVER);
    await expire(tested.clock, 30_000);
    const { verification, ...answer } = await verified;
    deepEqual(answer, {
      reward: null,
      failure: "Cannot verify: the command ran past exec_timeout_secs",
      timed_out: true,
    });
    deepEqual(verification, { ended: "timeout", code: null, output: "", capped: false });
  });
  await withEnvironment(tested, verifyBy("sleep 1000 & exit 0"), async (environment) => {
    deepEqual(await graded(environment), { reward: 1, timed_out: false }, "nothing is waited for");
  });
}

/** A reward of 0 has a record, so that a person sees a broken verification. */
async function checkEndings(tested: TestedEnvironments): Promise<void> {
  const ended = async (line: string) => {
    let found: VerificationRecord | undefined;
    await withEnvironment(tested, verifyBy(line), async (environment) => {
      found = (await environment.grade(NEVER)).verification;
    });
    return found;
  };
  deepEqual(await ended("echo out; echo wrong >&2; exit 3"), {
    ended: "exited",
    code: 3,
    output: "wrong",
    capped: false,
  });
  deepEqual(await ended("echo out; pwd >&2"), { ended: "exited", code: 0, output: "", capped: false });
  equal((await ended("pwd; exit 1"))?.output, tested.workspace ?? ".");
  deepEqual(await ended("echo out; kill -9 $$"), {
    ended: "killed",
    code: null,
    output: "out",
    capped: false,
  });
  const flooded = await ended("head -c 2000000 /dev/zero | tr '\\0' x; exit 1");
  deepEqual([flooded?.code, flooded?.capped], [1, true]);
}

async function checkFlood(tested: TestedEnvironments): Promise<void> {
  await withEnvironment(tested, verifyBy("head -c 20000000 /dev/zero; exit 0"), async (environment) => {
    deepEqual(await graded(environment), { reward: 1, timed_out: false });
  });
}

async function checkAbort(tested: TestedEnvironments): Promise<void> {
  await withEnvironment(tested, verifyBy("sleep 1000"), async (environment) => {
    const controller = new AbortController();
    const verified = environment.grade(controller.signal);
    controller.abort(new Error("enough"));
    await rejects(verified, /enough/);
  });
}

async function checkProtect(tested: TestedEnvironments): Promise<void> {
  const env = {
    files: { "check.sh": "exit 1\n", "tests/deep/t.txt": "kept", "test_a": "kept", "free.txt": "free" },
    setup: ["chmod 755 check.sh", "echo made > made_test.txt"],
    ...verifyBy(
      './check.sh; test $? = 1 && test "$(cat tests/deep/t.txt)$(cat test_a)" = keptkept &&' +
        ' test "$(cat made_test.txt)" = made && test "$(cat fr[e]e.txt)" = changed',
    ),
  };
  await withEnvironment(tested, env, async (environment) => {
    for (const path of ["check.sh", "tests/deep/t.txt", "test_a", "made_test.txt"]) {
      equal(await result(environment, "write_file", { path, content: "exit 0\n" }), "ok");
    }
    equal(await result(environment, "write_file", { path: "free.txt", content: "changed" }), "ok");
    deepEqual(await graded(environment), { reward: 1, timed_out: false });
  });
  const own = {
    files: { "a.txt": "1", "b.txt": "1" },
    ...verifyBy("test $(cat a.txt b.txt) = 12", { protect: ["a.*"] }),
  };
  await withEnvironment(tested, own, async (environment) => {
    for (const path of ["a.txt", "b.txt"]) {
      equal(await result(environment, "write_file", { path, content: "2" }), "ok");
    }
    deepEqual(await graded(environment), { reward: 1, timed_out: false });
  });
}

async function checkIsolation(tested: TestedEnvironments): Promise<void> {
  Deno.env.set("SVC_CANARY", "seen");
  try {
    const line =
      'test -z "$SVC_CANARY" && test -z "$(cat)" && test "$PWD" = "$(pwd)" && test "$HOME" = "$PWD"';
    await withEnvironment(tested, verifyBy(line), async (environment) => {
      deepEqual(await graded(environment), { reward: 1, timed_out: false });
    });
  } finally {
    Deno.env.delete("SVC_CANARY");
  }
}

async function checkTwo(tested: TestedEnvironments): Promise<void> {
  await withEnvironment(tested, { files: { "a": "1" } }, async (one) => {
    await withEnvironment(tested, { files: { "a": "1" } }, async (two) => {
      equal(await result(one, "write_file", { path: "a", content: "2" }), "ok");
      equal(await result(two, "read_file", { path: "a" }), "1");
    });
  });
}
