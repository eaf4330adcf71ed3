/** Runs the commands of a scenario in what attempts left, and tells the doing of an attempt from a broken scenario. */

import { createHash } from "node:crypto";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { type CommandResult, wasStarted } from "../tools/sandbox.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";
import type { EnvironmentGrade, EnvironmentState } from "./environment.ts";
import { unlessAborted } from "./unless_aborted.ts";
import { ending, hasNoVerdict, outcomeText, quotedOutput, quotedText, withSignal } from "./verdict.ts";

/** How a verify command ended, and whether protected files had been changed, removed or added before. */
export interface Verified {
  result: CommandResult;
  tampered: boolean;
}

/**
 * The workspace of an attempt, or an untouched one. All commands throw `environment_failed` when they are impossible,
 * with `details.sandbox_lost` where the sandbox has ended; and others when no sandbox can be started.
 */
export interface InspectedWorkspace {
  /** Restores the protected files and runs the scenario's verify command. @throws {ServiceError} */
  verify(signal: AbortSignal): Promise<Verified>;
  /** Runs the scenario's summary command. @throws {ServiceError} */
  summarise(signal: AbortSignal): Promise<CommandResult>;
  /** Runs the program of a tool, without input. @throws {ServiceError} */
  start(argv: readonly string[], signal: AbortSignal): Promise<CommandResult>;
}

/** The workspace of an attempt. */
export interface AttemptedWorkspace extends InspectedWorkspace {
  /** Gives back the sandbox, before an untouched workspace opens. Absent: it holds no place that others wait for. */
  release?(): void;
}

/** What is needed to tell whose doing a failure is. */
export interface InspectOptions {
  untouched: UntouchedWorkspaces;
  signal: AbortSignal;
}

/** Finds out about an attempt by a command. */
export type Inspect<T> = (
  scenario: Scenario,
  workspace: AttemptedWorkspace,
  options: InspectOptions,
) => Promise<T>;

/** A command of a scenario. */
interface Inspection {
  run(workspace: InspectedWorkspace, signal: AbortSignal): Promise<Verified>;
  /** Whether its end tells nothing about the workspace. */
  hasFailed(result: CommandResult): boolean;
}

const INSPECTIONS = {
  verify: { run: (workspace, signal) => workspace.verify(signal), hasFailed: hasNoVerdict },
  summary: {
    run: async (workspace, signal) => ({ result: await workspace.summarise(signal), tampered: false }),
    hasFailed: ({ code }) => code !== 0,
  },
} satisfies Record<string, Inspection>;

/** A command of the scenario, or the program of a tool. */
type Inspected = keyof typeof INSPECTIONS | { start: readonly string[] };

function inspectionOf(inspected: Inspected): Inspection {
  if (typeof inspected === "string") return INSPECTIONS[inspected];
  const { start } = inspected;
  return {
    run: async (workspace, signal) => ({ result: await workspace.start(start, signal), tampered: false }),
    hasFailed: (result) => !wasStarted(result),
  };
}

/** How a command ended in a workspace. */
interface Outcome {
  /** Null: it could not run. */
  result: CommandResult | null;
  tampered: boolean;
  /** Why it tells nothing about the workspace, such as "the command was killed"; null: it does. */
  failure: string | null;
  /** Its sandbox has ended. */
  is_lost: boolean;
}

const hasTimedOut = ({ result }: Outcome) => result?.ended === "timeout";

/**
 * The grade of an attempt. A verification without a verdict is the attempt's doing where an untouched workspace gets one:
 * the reward is then 0. Else the verification has failed.
 */
export async function gradeByVerification(
  scenario: Scenario,
  workspace: AttemptedWorkspace,
  options: InspectOptions,
): Promise<EnvironmentGrade> {
  const verify = scenario.env?.verify;
  if (!verify) return { reward: null, timed_out: false };
  const outcome = await outcomeOf("verify", workspace, options.signal);
  const verification = recordOf(outcome), timed_out = hasTimedOut(outcome);
  if (outcome.failure === null) {
    return { reward: verification.code === 0 ? verify.reward_on_success : 0, timed_out, verification };
  }
  const both = await failureOfBoth("verify", outcome, { scenario, workspace, ...options });
  if (both === null) return { reward: 0, timed_out, verification };
  return {
    ...{ reward: null, failure: `Cannot verify: ${both.failure}` },
    ...{ timed_out: both.timed_out, verification },
  };
}

/** What a judge reads of an attempt whose sandbox has ended. */
export const LOST_STATE = "(The sandbox has ended, and its files are lost.)";

/**
 * The state of an attempt by its scenario's summary. A summary that fails is the attempt's doing where it works in an
 * untouched workspace: a sentence then says so in its place. As a failure it would lose the attempt, and a policy could
 * shed its bad attempts. So a sandbox that has ended is no failure either.
 *
 * @throws {ServiceError} `environment_failed` when it fails in both.
 */
export async function stateBySummary(
  scenario: Scenario,
  workspace: AttemptedWorkspace,
  options: InspectOptions,
): Promise<EnvironmentState> {
  if (!scenario.env?.summary) return { value: null };
  const outcome = await outcomeOf("summary", workspace, options.signal), { result, failure } = outcome;
  const stateOf = (value: string): EnvironmentState => (
    { value, ...hasTimedOut(outcome) && { timed_out: true } }
  );
  if (failure === null) return stateOf(result!.stdout);
  if (outcome.is_lost) return stateOf(LOST_STATE);
  const both = await failureOfBoth("summary", outcome, { scenario, workspace, ...options });
  if (both) {
    const details = both.timed_out ? { transient: true } : {};
    throw new ServiceError("environment_failed", `Cannot summarise the result: ${both.failure}`, details);
  }
  const how = result ? `it ${ending(result)}` : "it could not run";
  return stateOf(`(The summary command failed in this attempt's workspace: ${how}.)`);
}

/** Why a command failed in an attempt's workspace and in an untouched one; null: it works in the latter. */
async function failureOfBoth(
  command: Inspected,
  own: Outcome,
  { scenario, workspace, untouched, signal }: InspectOptions & {
    scenario: Scenario;
    workspace: AttemptedWorkspace;
  },
): Promise<{ failure: string; timed_out: boolean } | null> {
  workspace.release?.();
  const other = await untouched.outcome(command, scenario, signal);
  if (other.failure === null) return null;
  const also = other.failure === own.failure ? " too" : `: ${other.failure}`;
  return {
    failure: `${own.failure}; in an untouched workspace${also}`,
    timed_out: hasTimedOut(own) || hasTimedOut(other),
  };
}

async function outcomeOf(
  command: Inspected,
  workspace: InspectedWorkspace,
  signal: AbortSignal,
): Promise<Outcome> {
  try {
    const { run, hasFailed } = inspectionOf(command);
    const ended = await run(workspace, signal), result = withSignal(ended.result);
    signal.throwIfAborted();
    const failure = hasFailed(result) ? `the command ${outcomeText(result)}` : null;
    return { ...ended, result, failure, is_lost: false };
  } catch (error) {
    signal.throwIfAborted();
    return outcomeOfError(error);
  }
}

/** An attempt can leave a workspace that cannot be restored or copied, or take all memory of its sandbox. */
function outcomeOfError(error: unknown): Outcome {
  if (!(error instanceof ServiceError) || error.code !== "environment_failed") throw error;
  const failure = error.message.replace(/^Cannot /, "cannot ");
  return { result: null, tampered: false, failure, is_lost: error.details.sandbox_lost === true };
}

function recordOf({ result, tampered, failure }: Outcome): VerificationRecord {
  if (!result) return { ended: "killed", code: null, output: quotedText(failure!), capped: false };
  return {
    ended: result.ended === "cancelled" ? "killed" : result.ended,
    code: result.code,
    output: result.code === 0 ? "" : quotedOutput(result),
    capped: result.capped,
    ...(tampered && { tampered }),
  };
}

/** The commands of scenarios in workspaces without an attempt; each runs once, when it is first asked for. */
export class UntouchedWorkspaces {
  readonly #known = new Map<string, Promise<Outcome>>();
  readonly #life = new AbortController();

  /** @param open Opens a workspace with the files and the setup of a scenario. */
  constructor(
    readonly open: (
      scenario: Scenario,
      signal: AbortSignal,
    ) => Promise<InspectedWorkspace & { close(): Promise<void> }>,
  ) {}

  /** @throws {ServiceError} When no sandbox can be started; the signal's reason. */
  async outcome(command: Inspected, scenario: Scenario, signal: AbortSignal): Promise<Outcome> {
    const key = createHash("sha256").update(JSON.stringify([command, scenario.env])).digest("base64");
    let known = this.#known.get(key);
    if (!known) {
      known = this.#run(command, scenario);
      this.#known.set(key, known);
      // The next attempt tries again.
      known.catch(() => this.#known.delete(key));
    }
    return await unlessAborted(known, signal);
  }

  async #run(command: Inspected, scenario: Scenario): Promise<Outcome> {
    const { signal } = this.#life;
    signal.throwIfAborted();
    let workspace: Awaited<ReturnType<UntouchedWorkspaces["open"]>> | null = null;
    try {
      workspace = await this.open(scenario, signal);
      return await outcomeOf(command, workspace, signal);
    } catch (error) {
      signal.throwIfAborted();
      return outcomeOfError(error);
    } finally {
      await workspace?.close();
    }
  }

  /** Ends those that run. Never throws. */
  async close(): Promise<void> {
    this.#life.abort(new ServiceError("cancelled", "Cannot go on: the environments are closed"));
    await Promise.allSettled(this.#known.values());
  }
}
