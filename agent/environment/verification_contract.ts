/** Tests for every environment that runs a scenario's `verify` itself, by what a verification promises. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import type { ManualClock } from "../../core/clock_fake.ts";
import { FILES_TOOLSET } from "../tools/builtin/files.ts";
import type { Toolset } from "../tools/toolset.ts";
import { configuredToolsets } from "../tools/toolsets.ts";
import type { BoundaryFailure } from "../trajectory/boundary.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";
import type { Environment, EnvironmentGrade, EnvironmentState } from "./environment.ts";
import { type Checks, result, type TestedEnvironments, withEnvironment } from "./environment_contract.ts";

/** What an environment promises that runs a scenario's `verify` itself, and offers {@link TESTED_TOOLSETS}. */
export const VERIFICATION_CHECKS: Checks = {
  "verification gives the reward, or nothing": checkVerify,
  "a verification that never ends is killed with all it started": checkHang,
  "an attempt that breaks its verification earns nothing": checkBroken,
  "an attempt that breaks its summary is not lost: the judge reads that it failed": checkBrokenSummary,
  "an attempt that breaks a tool is graded as it is": checkBrokenTool,
  "a tool that starts in no workspace loses the attempt": checkDeadTool,
  "a verification tells how its command ended": checkEndings,
  "a verification that floods is read to its end": checkFlood,
  "an abort ends a verification": checkAbort,
  "protected files are restored before verification": checkProtect,
  "protected files that an attempt added are removed": checkAdded,
  "protected links are restored with the files to which they lead": checkLinks,
  "folders without permissions do not keep files from being restored": checkFolders,
  "a command sees nothing of the service": checkIsolation,
};

const NEVER = new AbortController().signal;
const parameters = { type: "object", properties: { line: { type: "string" } }, required: ["line"] };

/** Runs lines of a shell; the result is how they ended. */
const SHELL_TOOLSET: Toolset = {
  ...{ name: "shell", version: "1", tools: [{ name: "sh", description: "", parameters }] },
  async run({ call, sandbox, signal }) {
    const { ended, code, stderr } = await sandbox.run(
      { argv: ["sh", "-c", call.arguments.line as string] },
      signal,
    );
    return { result: `${ended} ${code} ${stderr}`, reward: null, done: false };
  },
};

const FIND_TOOLSET = configuredToolsets({
  find: {
    version: 1,
    tools: [{ name: "find", description: "", parameters: { type: "object" }, command: ["./find"] }],
  },
}).find!;

/** A program of the workspace as a tool, and lines of a shell that may break it. */
const OWN_TOOLSET: Toolset = {
  ...{ name: "own", version: "1", tools: [...SHELL_TOOLSET.tools, ...FIND_TOOLSET.tools] },
  run: (request) => (request.call.name === "sh" ? SHELL_TOOLSET : FIND_TOOLSET).run(request),
};

/** The toolsets of tested environments: `files` is the default. */
export const TESTED_TOOLSETS = { files: FILES_TOOLSET, shell: SHELL_TOOLSET, own: OWN_TOOLSET };

/** An attempt runs a line of shell, and is graded. */
async function attempted(tested: TestedEnvironments, env: object, line: string): Promise<EnvironmentGrade> {
  let grade: EnvironmentGrade | undefined;
  await withEnvironment(tested, { toolset: "shell", ...env }, async (environment) => {
    equal(await result(environment, "sh", { line }), "exited 0 ", line);
    grade = await environment.grade(NEVER);
  });
  return grade!;
}

/** The grade without the record of the command. */
async function graded(environment: Environment): Promise<Omit<EnvironmentGrade, "verification">> {
  const { verification: _, ...answer } = await environment.grade(NEVER);
  return answer;
}

const verifyBy = (line: string, more: object = {}) => ({ verify: { command: ["sh", "-c", line], ...more } });

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
      ["exit 137", "was killed"],
      ["exit 126", "exited with status 126"],
      ["no-such-program", "exited with status 127: "],
      ["chmod -x a; ./a", "exited with status 126: "],
    ] as const
  ) {
    await withEnvironment(tested, { files: { a: "" }, ...verifyBy(line) }, async (environment) => {
      const { failure, ...answer } = await graded(environment);
      deepEqual(answer, { reward: null, timed_out: false }, line);
      ok(failure?.startsWith(`Cannot verify: the command ${reason}`), failure);
      ok(failure?.endsWith("; in an untouched workspace too"), failure);
    });
  }
  for (const code of [1, 2, 124, 125, 128, 193, 255]) {
    await withEnvironment(tested, verifyBy(`exit ${code}`), async (environment) => {
      deepEqual(await graded(environment), { reward: 0, timed_out: false }, `exit ${code}`);
    });
  }
  await withEnvironment(tested, {}, async (environment) => {
    deepEqual(await graded(environment), { reward: null, timed_out: false });
  });
  await withEnvironment(tested, { verify: { command: ["no-such-program"] } }, async (environment) => {
    deepEqual(await graded(environment), {
      ...{ reward: null, timed_out: false },
      failure: "Cannot verify: cannot run no-such-program: no such program; in an untouched workspace too",
    });
  });
}

/** Advances the clock as soon as something waits for it. */
async function expire(clock: ManualClock, delta_ms: number): Promise<void> {
  while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  await clock.advance(delta_ms);
}

async function checkHang(tested: TestedEnvironments): Promise<void> {
  const env = {
    toolset: "shell",
    files: { "work.sh": "exit 1" },
    ...verifyBy(". ./work.sh", { protect: [] }),
  };
  await withEnvironment(tested, env, async (environment) => {
    const line = `echo "trap '' TERM INT; sleep 1000 & sleep 1000" > work.sh`;
    equal(await result(environment, "sh", { line }), "exited 0 ");
    const verified = environment.grade(NEVER);
    await expire(tested.clock, 30_000);
    const { verification, ...answer } = await verified;
    deepEqual(answer, { reward: 0, timed_out: true });
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
    const line = 'test -z "$SVC_CANARY" && test -z "$(cat)" && test "$PWD" = "$(pwd)"';
    // The workspace is the HOME of the model's programs, so a verification has another one, which is empty.
    const home =
      'test -z "$(ls -A "$HOME")" && test -d "$HOME" && test "$PYTHONNOUSERSITE" = 1 && touch "$HOME/x"';
    const env = { toolset: "shell", ...verifyBy(`${line} && ${home}`), summary: ["sh", "-c", home] };
    await withEnvironment(tested, env, async (environment) => {
      const make = `${line} && test "$HOME" = "$PWD" && touch x .profile`;
      equal(await result(environment, "sh", { line: make }), "exited 0 ");
      for (let i = 0; i < 2; i++) {
        deepEqual(await graded(environment), { reward: 1, timed_out: false });
        deepEqual(await environment.state(NEVER), { value: "" });
      }
    });
  } finally {
    Deno.env.delete("SVC_CANARY");
  }
  // A login shell reads what lies in HOME, as many programs do.
  const profile =
    'echo exit 0 > .profile; { mkdir "$PWD-home" && cp .profile "$PWD-home"; } 2>/dev/null || true';
  const login = { verify: { command: ["sh", "-lc", "exit 1"] } };
  equal((await attempted(tested, login, profile)).reward, 0);
}

/** The line of each attempt stays in the workspace, and the verification runs it. */
async function checkBroken(tested: TestedEnvironments): Promise<void> {
  const env = { files: { "work.sh": "exit 1" }, ...verifyBy(". ./work.sh", { protect: [] }) };
  for (
    const [line, ended, code] of [
      ["echo oops >&2; kill -9 $$", "killed", null],
      ["kill -SEGV $$", "killed", null],
      ["exit 126", "exited", 126],
      ["exit 127", "exited", 127],
      // Some sandboxes cannot tell these from signals, so none does.
      ["exit 130", "killed", null],
      ["exit 137", "killed", null],
      ["exit 192", "killed", null],
      ["exit 193", "exited", 193],
    ] as const
  ) {
    const { reward, failure, timed_out, verification } = await attempted(
      tested,
      env,
      `echo '${line}' > work.sh`,
    );
    deepEqual([reward, failure, timed_out], [0, undefined, false], line);
    deepEqual([verification?.ended, verification?.code], [ended, code], line);
  }
  const program = { files: { run: "#!/bin/sh\nexit 1\n" }, setup: ["chmod 755 run"] };
  const missing = { ...program, verify: { command: ["./run"], protect: [] } };
  const { reward, verification } = await attempted(tested, missing, "rm run");
  deepEqual([reward, verification?.ended, verification?.code], [0, "killed", null]);
  ok(verification!.output.includes("cannot run ./run: no such program"), verification!.output);
}

async function checkBrokenTool(tested: TestedEnvironments): Promise<void> {
  const env = {
    ...{ toolset: "own", files: { find: "#!/bin/sh\necho found\n" }, setup: ["chmod 755 find"] },
    ...verifyBy("test -e done"),
    summary: ["echo", "state"],
  };
  for (const line of ["rm find", "chmod -x find", "mkdir d; mv find d", "printf 'exit 127' > find"]) {
    for (const [more, reward] of [["; touch done", 1], ["", 0]] as const) {
      await withEnvironment(tested, env, async (environment) => {
        equal(await result(environment, "find", {}), "found");
        equal(await result(environment, "sh", { line: line + more }), "exited 0 ", line);
        match((await result(environment, "find", {}))!, /^error: /, line);
        deepEqual(await graded(environment), { reward, timed_out: false }, line);
      });
    }
    await withEnvironment(tested, env, async (environment) => {
      equal(await result(environment, "sh", { line }), "exited 0 ", line);
      match((await result(environment, "find", {}))!, /^error: /, line);
      deepEqual(await environment.state(NEVER), { value: "state\n" }, line);
    });
  }
}

async function checkDeadTool(tested: TestedEnvironments): Promise<void> {
  for (const find of [null, "exit 0", "#!/bin/sh\nexit 126\n"]) {
    const files = find === null ? {} : { find };
    const setup = find?.startsWith("#!") ? ["chmod 755 find"] : [];
    const env = { toolset: "own", files, setup, ...verifyBy("exit 0") };
    await withEnvironment(tested, env, async (environment) => {
      match((await result(environment, "find", {}))!, /^error: /);
      await rejects(environment.grade(NEVER), (error: BoundaryFailure) => {
        return error.failure.boundary === "tool" && /untouched workspace too/.test(error.message);
      });
    });
  }
}

/** The line of each attempt stays in the workspace, and the summary runs it. */
async function checkBrokenSummary(tested: TestedEnvironments): Promise<void> {
  const env = { toolset: "shell", files: { run: "#!/bin/sh\necho fine\n" }, setup: ["chmod 755 run"] };
  const stateAfter = async (line: string, more: { summary?: string[]; limit_ms?: number } = {}) => {
    const { summary = ["./run"], limit_ms } = more;
    let state: EnvironmentState | undefined;
    await withEnvironment(tested, { ...env, summary }, async (environment) => {
      equal(await result(environment, "sh", { line }), "exited 0 ", line);
      const told = environment.state(NEVER);
      if (limit_ms !== undefined) await expire(tested.clock, limit_ms);
      state = await told;
    });
    return state;
  };
  const failed = (how: string) => `(The summary command failed in this attempt's workspace: it ${how}.)`;
  deepEqual(await stateAfter("true"), { value: "fine\n" });
  for (
    const [line, how] of [
      ["echo 'exit 1' >> run", "exited with status 1"],
      ["echo 'exit 137' >> run", "was killed"],
      ["echo 'kill -9 $$' >> run", "was killed"],
      ["rm run", "could not run"],
    ] as const
  ) deepEqual(await stateAfter(line), { value: failed(how) }, line);
  const hung = { value: failed("ran past exec_timeout_secs"), timed_out: true };
  deepEqual(await stateAfter("echo 'sleep 1000' >> run", { limit_ms: 30_000 }), hung);
}

async function checkAdded(tested: TestedEnvironments): Promise<void> {
  const files = { "tests/t.txt": "kept", "a.txt": "" };
  const gone = "test ! -e tests/[n]ew -a ! -e tests/sub/[n]ew -a ! -L test_[l]ink";
  const env = { files, ...verifyBy(`${gone} && test "$(cat tests/t.txt)" = kept && . ./test_answer`) };
  const added = "mkdir -p tests/sub; echo > tests/new; echo > tests/sub/new; ln -s a.txt test_link";
  const { reward, verification } = await attempted(tested, env, `${added}; echo exit 0 > test_answer`);
  deepEqual([reward, verification?.tampered], [1, true]);
  // The command names it and the task does not have it: the attempt has to make it.
  const honest = await attempted(tested, env, "echo exit 0 > test_answer; echo > other");
  deepEqual([honest.reward, honest.verification?.tampered], [1, undefined]);
  // A run of the tests leaves a cache, which could hold anything.
  const cached = { files, ...verifyBy('test -z "$(find . -name "*.pyc")"') };
  const caches = "mkdir -p tests/__pycache__ __pycache__; touch tests/__pycache__/t.pyc __pycache__/a.pyc";
  const cleaned = await attempted(tested, cached, caches);
  deepEqual([cleaned.reward, cleaned.verification?.tampered], [1, undefined]);
}

async function checkLinks(tested: TestedEnvironments): Promise<void> {
  const env = {
    files: { "real/t": "kept" },
    setup: ["mkdir tests; ln -s ../real/t tests/t; ln -s /nowhere tests/dangling"],
    ...verifyBy('test "$(cat tests/t)" = kept && test -L tests/t -a -L tests/dangling'),
  };
  for (
    const line of [
      "rm tests/t; echo other > tests/t",
      "ln -sfn ../x tests/t",
      "echo other > tests/t",
      "rm -r tests; mkdir x; ln -s x tests; echo other > x/t",
      "rm tests/dangling",
    ]
  ) {
    const { reward, verification } = await attempted(tested, env, line);
    deepEqual([reward, verification?.tampered], [1, true], line);
  }
  const { verification } = await attempted(tested, env, "true");
  deepEqual([verification?.code, verification?.tampered], [0, undefined]);
}

async function checkFolders(tested: TestedEnvironments): Promise<void> {
  const env = {
    files: { "tests/t": "kept" },
    ...verifyBy('test "$(cat tests/t)" = kept && test ! -e tests/x/[n]ew && test ! -e tests/[n]ew'),
  };
  for (
    const line of [
      "echo other > tests/t; chmod 555 tests .",
      "rm tests/t; mkdir -p tests/t/x/y; chmod 000 tests/t/x; chmod 555 tests/t",
      "rm tests/t; mkdir -p tests/t/x/y; chmod 555 tests/t/x tests/t",
      "echo > tests/new; chmod 555 tests",
      "mkdir tests/x; echo > tests/x/new; chmod 311 tests/x; chmod 111 tests",
      "rm -r tests; echo > tests; chmod 555 .",
    ]
  ) {
    const { reward, verification, failure } = await attempted(tested, env, line);
    deepEqual([reward, failure], [1, undefined], line);
    equal(verification?.tampered ?? false, true, line);
  }
  // A folder that the task asks for keeps its permissions.
  const modes = verifyBy('test "$(stat -c %a out in)" = "$(printf "555\\n500")"');
  const { reward } = await attempted(tested, modes, "mkdir out in; chmod 555 out; chmod 500 in");
  equal(reward, 1);
}
