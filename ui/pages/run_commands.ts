/** What a person may do with a run, by its state. The server has the last word: it also knows what a run lacks. */

import type { Run } from "../../api/types.ts";

type State = Run["state"];

/** What the page of a run offers. */
export type Command =
  | "pause"
  | "resume"
  | "cancel"
  | "checkpoint"
  | "evaluate"
  | "generate"
  | "set_lr"
  | "fork"
  | "delete";

/** The states in which the server accepts each command. */
export const OFFERED: Readonly<Record<Command, readonly State[]>> = {
  pause: ["running"],
  resume: ["paused", "failed", "interrupted"],
  cancel: ["queued", "starting", "running", "pausing", "paused", "stopping", "interrupted"],
  checkpoint: ["running", "paused"],
  evaluate: ["running", "paused", "completed"],
  generate: ["running", "paused", "completed"],
  set_lr: ["queued", "starting", "running", "pausing", "paused"],
  fork: ["paused", "completed", "cancelled", "failed", "interrupted"],
  delete: ["completed", "cancelled", "failed", "interrupted"],
};

/** Whether a command is offered for a run in this state. */
export function isOffered(command: Command, state: State): boolean {
  return OFFERED[command].includes(state);
}

/** What becomes of a run that is cancelled, for who is asked whether to. */
export function cancelNote({ state, config }: Pick<Run, "state" | "config">): string {
  const writes = (state === "running" || state === "pausing") && config.checkpoint !== undefined;
  return writes
    ? "It cannot be resumed. It writes a checkpoint first, which can be forked."
    : state === "paused" || state === "interrupted"
    ? "It cannot be resumed. Its checkpoints stay, and can be forked."
    : "It cannot be resumed.";
}

/** The tags of a text that has commas between them. */
export function tagsOf(text: string): string[] {
  return [...new Set(text.split(",").map((tag) => tag.trim()).filter((tag) => tag !== ""))];
}
