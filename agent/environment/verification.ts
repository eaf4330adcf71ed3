/** Grades attempts by the command that verifies them. */

import { createHash } from "node:crypto";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { CommandResult } from "../tools/sandbox.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";
import type { EnvironmentGrade } from "./environment.ts";
import { unlessAborted } from "./unless_aborted.ts";
import { hasNoVerdict, outcomeText, quotedOutput, quotedText, withSignal } from "./verdict.ts";

/** How a verify command ended, and whether protected files had been changed, removed or added before. */
export interface Verified {
  result: CommandResult;
  tampered: boolean;
}

/** The workspace of an attempt, or an untouched one. */
export interface VerifiableWorkspace {
  /**
   * Restores the protected files and runs the scenario's verify command.
   *
   * @throws {ServiceError} `environment_failed` when that is impossible; others when no sandbox can be started.
   */
  verify(signal: AbortSignal): Promise<Verified>;
}

/** The outcome of a verification. */
interface Outcome {
  record: VerificationRecord;
  /** Why there is no verdict; null: the command exited by itself. */
  failure: string | null;
}

/**
 * The grade of an attempt. A verification without a verdict is the attempt's doing where an untouched workspace gets one:
 * the reward is then 0. Else the verification has failed.
 *
 * @param workspace `release` is called before an untouched workspace opens: it gives back the sandbox.
 */
export async function gradeByVerification(
  scenario: Scenario,
  workspace: VerifiableWorkspace & { release?(): void },
  { untouched, signal }: { untouched: UntouchedVerifications; signal: AbortSignal },
): Promise<EnvironmentGrade> {
  const verify = scenario.env?.verify;
  if (!verify) return { reward: null, timed_out: false };
  const { record: verification, failure } = await outcomeOf(workspace, signal);
  const timed_out = verification.ended === "timeout";
  if (failure === null) {
    return { reward: verification.code === 0 ? verify.reward_on_success : 0, timed_out, verification };
  }
  workspace.release?.();
  const other = await untouched.outcome(scenario, signal);
  if (other.failure === null) return { reward: 0, timed_out, verification };
  const also = other.failure === failure ? " too" : `: ${other.failure}`;
  return {
    reward: null,
    failure: `Cannot verify: ${failure}; in an untouched workspace${also}`,
    timed_out: timed_out || other.record.ended === "timeout",
    verification,
  };
}

async function outcomeOf(workspace: VerifiableWorkspace, signal: AbortSignal): Promise<Outcome> {
  try {
    const { result, tampered } = await workspace.verify(signal);
    signal.throwIfAborted();
    return outcomeOfCommand(withSignal(result), tampered);
  } catch (error) {
    signal.throwIfAborted();
    return outcomeOfError(error);
  }
}

function outcomeOfCommand(result: CommandResult, tampered: boolean): Outcome {
  return {
    record: {
      ended: result.ended === "cancelled" ? "killed" : result.ended,
      code: result.code,
      output: result.code === 0 ? "" : quotedOutput(result),
      capped: result.capped,
      ...(tampered && { tampered }),
    },
    failure: hasNoVerdict(result) ? `the command ${outcomeText(result)}` : null,
  };
}

/** An attempt can leave a workspace that cannot be restored or copied, or take all memory of its sandbox. */
function outcomeOfError(error: unknown): Outcome {
  if (!(error instanceof ServiceError) || error.code !== "environment_failed") throw error;
  const failure = error.message.replace(/^Cannot /, "cannot ");
  return { record: { ended: "killed", code: null, output: quotedText(failure), capped: false }, failure };
}

/** The verifications of scenarios in workspaces without an attempt; each runs once, when it is first asked for. */
export class UntouchedVerifications {
  readonly #known = new Map<string, Promise<Outcome>>();
  readonly #life = new AbortController();

  /** @param open Opens a workspace with the files and the setup of a scenario. */
  constructor(
    readonly open: (
      scenario: Scenario,
      signal: AbortSignal,
    ) => Promise<VerifiableWorkspace & { close(): Promise<void> }>,
  ) {}

  /** @throws {ServiceError} When no sandbox can be started; the signal's reason. */
  async outcome(scenario: Scenario, signal: AbortSignal): Promise<Outcome> {
    const key = createHash("sha256").update(JSON.stringify(scenario.env)).digest("base64");
    let known = this.#known.get(key);
    if (!known) {
      known = this.#run(scenario);
      this.#known.set(key, known);
      // The next attempt tries again.
      known.catch(() => this.#known.delete(key));
    }
    return await unlessAborted(known, signal);
  }

  async #run(scenario: Scenario): Promise<Outcome> {
    const { signal } = this.#life;
    signal.throwIfAborted();
    let workspace: Awaited<ReturnType<UntouchedVerifications["open"]>> | null = null;
    try {
      workspace = await this.open(scenario, signal);
      return await outcomeOf(workspace, signal);
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
