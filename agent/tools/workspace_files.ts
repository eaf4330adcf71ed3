/** The files of an attempt's workspace, as toolsets use them. */

/** Why a path of a workspace cannot be used. */
export class WorkspaceRefusal extends Error {
  constructor(readonly reason: "outside" | "absent" | "unusable") {
    super(reason);
  }
}

/** The files of a workspace; paths come from the model. Every method may throw {@link WorkspaceRefusal}. */
export interface WorkspaceFiles {
  read(path: string): Promise<string>;
  write(path: string, content: string): Promise<void>;
  list(path: string): Promise<{ name: string; directory: boolean }[]>;
}
