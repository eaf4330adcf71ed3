import { deepEqual, equal, match, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { CommandResult } from "../tools/sandbox.ts";
import { scenarioWith } from "./environment_contract.ts";
import { gradeByVerification, UntouchedVerifications, type Verified } from "./verification.ts";

const NEVER = new AbortController().signal;
const scenario = scenarioWith({ verify: { command: ["check"], reward_on_success: 2 } });

function ended(more: Partial<CommandResult>): Verified {
  const result = { code: 0, ended: "exited", stdout: "", stderr: "", capped: false, ...more } as const;
  return { result, tampered: false };
}

const EXITED = ended({ code: 3 });
const HUNG = ended({ ended: "timeout", code: null });
const KILLED = ended({ ended: "killed", code: null, stderr: "oops" });

/** Untouched workspaces whose verification has an outcome, and what happens to them in order. */
function untouchedOf(verify: (signal: AbortSignal) => Promise<Verified>) {
  const log: string[] = [];
  const untouched = new UntouchedVerifications((_, signal) => {
    log.push("open");
    signal.throwIfAborted();
    return Promise.resolve({
      verify,
      close: () => Promise.resolve(void log.push("close")),
    });
  });
  return { untouched, log };
}

const graded = (verified: Verified, untouched: UntouchedVerifications, signal = NEVER) =>
  gradeByVerification(scenario, { verify: () => Promise.resolve(verified) }, { untouched, signal });

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
    const workspace = { verify: () => Promise.resolve(KILLED) };
    equal((await gradeByVerification(task, workspace, { untouched, signal: NEVER })).reward, 0);
  }
  deepEqual(log, ["open", "close", "open", "close"]);
});

Deno.test("an attempt gives back its sandbox before an untouched workspace opens", async () => {
  const { untouched, log } = untouchedOf(() => Promise.resolve(EXITED));
  const workspace = { verify: () => Promise.resolve(KILLED), release: () => void log.push("release") };
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
  const grade = await gradeByVerification(scenario, { verify }, { untouched, signal: NEVER });
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
  await rejects(gradeByVerification(scenario, { verify }, { untouched, signal: NEVER }), broken);
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
