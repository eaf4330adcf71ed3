/** Tests for every environment with the toolset `files`, by what an environment promises. */

import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import type { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { parseScenario, type Scenario } from "../../data/scenario.ts";
import type { Environment, EnvironmentFactory } from "./environment.ts";

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
  /** Ends what the tests needed besides the factory. */
  end?(): Promise<void>;
}

/** Tests by what they check. */
export type Checks = Readonly<Record<string, (tested: TestedEnvironments) => Promise<void>>>;

/** What every environment promises. */
export const TOOL_CHECKS: Checks = {
  "tools answer with the texts of their version": checkResults,
  "submit ends the trajectory without a result": checkSubmit,
  "no path leads out of the workspace": checkPaths,
  "setup runs in order, and a line that fails is the environment's failure": checkSetup,
  "the final state is the output of the summary": checkState,
  "two trajectories do not see each other": checkTwo,
};

/** The name of the tests, and which checks they have. */
export interface ContractOptions {
  name: string;
  ignore?: boolean | undefined;
  /** How texts show the folder of commands. */
  workspace?: string;
  /** Default: {@link TOOL_CHECKS}. */
  checks?: Checks;
}

/** Registers the tests. They share one environment factory. */
export function environmentContract(
  { name, ignore = false, workspace, checks = TOOL_CHECKS }: ContractOptions,
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
export async function withEnvironment(
  { factory }: Pick<TestedEnvironments, "factory">,
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

export async function result(
  environment: Environment,
  name: string,
  args: Record<string, unknown>,
): Promise<string | null> {
  const answer = await environment.call({ id: "c", name, arguments: args }, NEVER);
  deepEqual([answer.reward, answer.done], [null, false]);
  return answer.result;
}

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

async function checkState(tested: TestedEnvironments): Promise<void> {
  const summary = (line: string) => ({ files: { "a.txt": "old" }, summary: ["sh", "-c", line] });
  await withEnvironment(tested, summary("cat a.txt; pwd"), async (environment) => {
    await result(environment, "write_file", { path: "a.txt", content: "new\n" });
    deepEqual(await environment.state(NEVER), { value: `new\n${tested.workspace ?? "."}\n` });
  });
  await withEnvironment(tested, {}, async (environment) => {
    deepEqual(await environment.state(NEVER), { value: null });
  });
  await withEnvironment(tested, summary("echo out; echo wrong >&2; exit 3"), async (environment) => {
    await rejects(environment.state(NEVER), {
      code: "environment_failed",
      message:
        /Cannot summarise the result: the command exited with status 3: wrong; in an untouched workspace too$/,
    });
  });
}

async function checkTwo(tested: TestedEnvironments): Promise<void> {
  await withEnvironment(tested, { files: { "a": "1" } }, async (one) => {
    await withEnvironment(tested, { files: { "a": "1" } }, async (two) => {
      equal(await result(one, "write_file", { path: "a", content: "2" }), "ok");
      equal(await result(two, "read_file", { path: "a" }), "1");
    });
  });
}
