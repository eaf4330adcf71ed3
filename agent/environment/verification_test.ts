import { deepEqual, equal, fail, match, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { CommandResult } from "../tools/sandbox.ts";
import { scenarioWith } from "./environment_contract.ts";
import {
  type AttemptedWorkspace,
  gradeByVerification,
  LOST_STATE,
  stateBySummary,
  UntouchedWorkspaces,
  type Verified,
} from "./verification.ts";

const NEVER = new AbortController().signal;
const scenario = scenarioWith({ verify: { command: ["check"], reward_on_success: 2 } });

function ended(more: Partial<CommandResult>): Verified {
  const result = { code: 0, ended: "exited", stdout: "", stderr: "", capped: false, ...more } as const;
  return { result, tampered: false };
}

const EXITED = ended({ code: 3 });
const HUNG = ended({ ended: "timeout", code: null });
const KILLED = ended({ ended: "killed", code: null, stderr: "oops" });

/** A workspace in which all commands end alike. */
const workspaceOf = (run: (signal: AbortSignal) => Promise<Verified>): AttemptedWorkspace => ({
  verify: run,
  summarise: async (signal) => (await run(signal)).result,
  start: async (_, signal) => (await run(signal)).result,
});

/** Untouched workspaces whose commands have an outcome, and what happens to them in order. */
function untouchedOf(verify: (signal: AbortSignal) => Promise<Verified>) {
  const log: string[] = [];
  const untouched = new UntouchedWorkspaces((_, signal) => {
    log.push("open");
    signal.throwIfAborted();
    return Promise.resolve({
      ...workspaceOf(verify),
      close: () => Promise.resolve(void log.push("close")),
    });
  });
  return { untouched, log };
}

const graded = (verified: Verified, untouched: UntouchedWorkspaces, signal = NEVER) =>
  gradeByVerification(scenario, workspaceOf(() => Promise.resolve(verified)), { untouched, signal });

Deno.test("an untouched workspace is verified once for each scenario, and only for one without a verdict", async () => {
  const { untouched, log } = untouchedOf(() => Promise.resolve(EXITED));
  equal((await graded(ended({}), untouched)).reward, 2);
  equal((await graded(EXITED, untouched)).reward, 0);
  deepEqual(log, []);
  const grades = await Promise.all([KILLED, HUNG, KILLED].map((verified) => graded(verified, untouched)));
  deepEqual(grades.map(({ reward, failure, timed_out }) => [reward, failure, timed_out]), [
    [0, undefined, false],
    [0, undefined, true],
    [0, undefined, false],
  ]);
  deepEqual(log, ["open", "close"]);
  // The same task in another file; and another task.
  const same = { ...scenario, id: "other", line: 7 };
  const other = scenarioWith({ files: { a: "" }, verify: { command: ["check"] } });
  for (const task of [same, other]) {
    const workspace = workspaceOf(() => Promise.resolve(KILLED));
    equal((await gradeByVerification(task, workspace, { untouched, signal: NEVER })).reward, 0);
  }
  deepEqual(log, ["open", "close", "open", "close"]);
});

Deno.test("an attempt gives back its sandbox before an untouched workspace opens", async () => {
  const { untouched, log } = untouchedOf(() => Promise.resolve(EXITED));
  const workspace = {
    ...workspaceOf(() => Promise.resolve(KILLED)),
    release: () => void log.push("release"),
  };
  equal((await gradeByVerification(scenario, workspace, { untouched, signal: NEVER })).reward, 0);
  deepEqual(log, ["release", "open", "close"]);
});

Deno.test("a verification without a verdict in an untouched workspace too has failed", async () => {
  const outcome = async (verified: Verified, other: () => Promise<Verified>) => {
    const { reward, failure, timed_out } = await graded(verified, untouchedOf(other).untouched);
    return [reward, failure, timed_out];
  };
  const alike = "Cannot verify: the command was killed: oops; in an untouched workspace too";
  deepEqual(await outcome(KILLED, () => Promise.resolve(KILLED)), [null, alike, false]);
  const hung =
    "Cannot verify: the command was killed: oops; in an untouched workspace: the command ran past " +
    "exec_timeout_secs";
  // A clock decided it, so another run may end otherwise.
  deepEqual(await outcome(KILLED, () => Promise.resolve(HUNG)), [null, hung, true]);
  const refused = new ServiceError("environment_failed", "Cannot set up scenario s: setup line 1 failed");
  const set_up =
    "Cannot verify: the command was killed: oops; in an untouched workspace: cannot set up scenario s: " +
    "setup line 1 failed";
  deepEqual(await outcome(KILLED, () => Promise.reject(refused)), [null, set_up, false]);
});

Deno.test("a workspace that cannot be verified at all is the attempt's doing as well", async () => {
  const { untouched } = untouchedOf(() => Promise.resolve(EXITED));
  const verify = () =>
    Promise.reject(new ServiceError("environment_failed", "Cannot copy the workspace: full"));
  const grade = await gradeByVerification(scenario, workspaceOf(verify), { untouched, signal: NEVER });
  deepEqual(grade, {
    ...{ reward: 0, timed_out: false },
    verification: { ended: "killed", code: null, output: "cannot copy the workspace: full", capped: false },
  });
});

Deno.test("a machine without sandboxes is no attempt's doing, and is asked again", async () => {
  const broken = new ServiceError("infrastructure_failed", "Cannot start a container");
  let starts = 0;
  const { untouched } = untouchedOf(() => ++starts === 1 ? Promise.reject(broken) : Promise.resolve(EXITED));
  await rejects(graded(KILLED, untouched), /Cannot start a container/);
  equal((await graded(KILLED, untouched)).reward, 0);
  const verify = () => Promise.reject(broken);
  await rejects(gradeByVerification(scenario, workspaceOf(verify), { untouched, signal: NEVER }), broken);
});

Deno.test("an attempt that is given up does not end the verification that others wait for", async () => {
  const going = Promise.withResolvers<Verified>(), asked = Promise.withResolvers<void>();
  const { untouched, log } = untouchedOf(() => {
    asked.resolve();
    return going.promise;
  });
  const controller = new AbortController();
  const given_up = graded(KILLED, untouched, controller.signal);
  const other = graded(KILLED, untouched);
  await asked.promise;
  controller.abort(new Error("enough"));
  await rejects(given_up, /enough/);
  going.resolve(EXITED);
  equal((await other).reward, 0);
  deepEqual(log, ["open", "close"]);
});

Deno.test("closed environments end the verifications of untouched workspaces", async () => {
  const asked = Promise.withResolvers<void>();
  const { untouched, log } = untouchedOf((signal) =>
    new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
      asked.resolve();
    })
  );
  const grade = graded(KILLED, untouched).catch((error) => error);
  await asked.promise;
  await untouched.close();
  deepEqual(log, ["open", "close"]);
  match((await grade).message, /the environments are closed/);
  await rejects(graded(KILLED, untouched), /the environments are closed/);
});

const task = scenarioWith({ verify: { command: ["check"] }, summary: ["tell"] });

Deno.test("a summary is compared with that of an untouched workspace, once for each scenario", async () => {
  const { untouched, log } = untouchedOf(() => Promise.resolve(ended({ stdout: "clean" })));
  const stateOf = (verified: Verified) =>
    stateBySummary(task, workspaceOf(() => Promise.resolve(verified)), { untouched, signal: NEVER });
  deepEqual(await stateOf(ended({ stdout: "done" })), { value: "done" });
  deepEqual(log, []);
  const told = (how: string) => `(The summary command failed in this attempt's workspace: it ${how}.)`;
  deepEqual(await Promise.all([EXITED, KILLED, HUNG].map(stateOf)), [
    { value: told("exited with status 3") },
    { value: told("was killed") },
    { value: told("ran past exec_timeout_secs"), timed_out: true },
  ]);
  deepEqual(log, ["open", "close"]);
  // The verification of the same scenario is another question.
  const broken = workspaceOf(() => Promise.resolve(KILLED));
  equal((await gradeByVerification(task, broken, { untouched, signal: NEVER })).reward, 0);
  deepEqual(log, ["open", "close", "open", "close"]);
  deepEqual(
    await stateBySummary(scenario, workspaceOf(() => Promise.reject(new Error("asked"))), {
      ...{ untouched, signal: NEVER },
    }),
    { value: null },
  );
});

Deno.test("a summary that fails in an untouched workspace too is the environment's failure", async () => {
  const failure = async (own: Verified, other: Verified) => {
    const { untouched } = untouchedOf(() => Promise.resolve(other));
    const told = stateBySummary(task, workspaceOf(() => Promise.resolve(own)), { untouched, signal: NEVER });
    const error: ServiceError = await told.then(() => fail("it has a state"), (error) => error);
    return [error.code, error.message, error.details];
  };
  const failed = "Cannot summarise the result: the command ";
  deepEqual(await failure(EXITED, EXITED), [
    ...["environment_failed", `${failed}exited with status 3; in an untouched workspace too`, {}],
  ]);
  // A clock decided it, so another run may end otherwise.
  deepEqual(await failure(EXITED, HUNG), [
    "environment_failed",
    `${failed}exited with status 3; in an untouched workspace: the command ran past exec_timeout_secs`,
    { transient: true },
  ]);
});

Deno.test("an attempt whose sandbox has ended has a state, whatever an untouched workspace says", async () => {
  const { untouched, log } = untouchedOf(() => Promise.resolve(KILLED));
  const lost = new ServiceError("environment_failed", "Cannot use the container", { sandbox_lost: true });
  const workspace = workspaceOf(() => Promise.reject(lost));
  deepEqual(await stateBySummary(task, workspace, { untouched, signal: NEVER }), { value: LOST_STATE });
  deepEqual(log, []);
});
