/** How graders of final states inspect an attempt. */

import type { Inspection, OpenAttempt } from "./grader.ts";

/** The state that the attempt left, as evidence; null: its environment offers none. */
export async function inspectState(
  { environment }: Pick<OpenAttempt, "environment">,
  signal: AbortSignal,
): Promise<Inspection> {
  const { value: evidence, ...found } = await environment.state(signal);
  return { evidence, ...found };
}
