/** Refuses to answer for a run with other files than those that it trained with. */

import { ServiceError } from "../../core/errors.ts";
import { listCheckpoints, readCheckpointRecord } from "./checkpoint.ts";
import type { Identity } from "./config_identity.ts";

/** The inputs of a run that its model consists of. */
export const MODEL_INPUTS = ["model.path", "model.chat_template"];

/** The inputs of a run that a request may read. */
const READ_INPUTS = [...MODEL_INPUTS, "evaluation.data"];

/**
 * Refuses when the files differ from those that the run's newest checkpoint names. A run without a checkpoint has
 * nothing to compare with.
 *
 * @param doing Completes "Cannot …".
 * @param given.identity Of the files as they are now; inputs that it lacks are not compared.
 * @throws {ServiceError} `conflict` with the keys in `details.changed`.
 */
export async function refuseOtherInputs(
  doing: string,
  { checkpoints, identity }: { checkpoints: string; identity: Identity },
): Promise<void> {
  const newest = (await listCheckpoints(checkpoints)).at(-1);
  const record = newest === undefined ? null : await readCheckpointRecord(`${checkpoints}/${newest}`);
  if (!record) return;
  const changed = READ_INPUTS.filter((key) => key in identity && record.config[key] !== identity[key]);
  if (changed.length === 0) return;
  throw new ServiceError(
    "conflict",
    `Cannot ${doing}: ${changed.join(", ")} changed since the run, or what the file holds`,
    { changed },
  );
}
