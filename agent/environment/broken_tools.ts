/** Tells a tool that does not work from one whose program an attempt has broken. */

import type { Scenario } from "../../data/scenario.ts";
import type { CallAnswer, ToolsetAnswer } from "../tools/tool_host.ts";
import { BoundaryFailure } from "../trajectory/boundary.ts";
import type { AttemptedWorkspace, InspectOptions } from "./verification.ts";

/** The tools of an attempt that could not be started. */
export class BrokenTools {
  readonly #commands = new Map<string, readonly string[]>();

  /** The answer to a call for the model, which goes on; the command of a tool that was not started is kept. */
  noted({ not_started, ...answer }: ToolsetAnswer): CallAnswer {
    if (not_started) this.#commands.set(JSON.stringify(not_started), not_started);
    return answer;
  }

  /**
   * Starts each of these tools, without input, in an untouched workspace of the scenario. One that starts there was broken
   * by the attempt, or by what the model asked of it: the attempt is then graded as it is.
   *
   * @throws {BoundaryFailure} `tool` for one that does not start there either.
   */
  async check(
    scenario: Scenario,
    workspace: Pick<AttemptedWorkspace, "release">,
    { untouched, signal }: InspectOptions,
  ): Promise<void> {
    for (const command of this.#commands.values()) {
      workspace.release?.();
      const { failure } = await untouched.outcome({ start: command }, scenario, signal);
      if (failure === null) continue;
      const message = `Cannot run the tool's program ${
        command[0]
      }: in an untouched workspace too, ${failure}`;
      throw new BoundaryFailure({ boundary: "tool", message }, "failed");
    }
  }
}
