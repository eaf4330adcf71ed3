/** The files of an attempt's workspace, as toolsets use them. */

/**
 * Why a path of a workspace cannot be used. `too_large`: a file or a listing above the sandbox's limit; `too_slow`: its
 * use took longer than a command may.
 */
export type RefusalReason = "outside" | "absent" | "unusable" | "too_large" | "too_slow";

/** A path of a workspace that cannot be used. An attempt can make every such path, so a tool tells it to the model. */
export class WorkspaceRefusal extends Error {
  constructor(readonly reason: RefusalReason) {
    super(reason);
  }
}

/** The result of a tool for refusals that are no matter of what was looked for; null for the others. */
export function refusalText(reason: RefusalReason): string | null {
  if (reason === "too_large") return "error: too large to read";
  return reason === "too_slow" ? "error: it took longer than the time limit" : null;
}

/** The files of a workspace; paths come from the model. Every method may throw {@link WorkspaceRefusal}. */
export interface WorkspaceFiles {
  read(path: string): Promise<string>;
  write(path: string, content: string): Promise<void>;
  list(path: string): Promise<{ name: string; directory: boolean }[]>;
}
