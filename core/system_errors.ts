/** Errors of the operating system in plain words. */

/** The reason of an operating-system error. */
export interface SystemRefusal {
  reason: string;
  /** The fix, unless it is obvious. */
  fix?: string;
  /** True when the request is valid and the machine cannot fulfil it now. */
  is_machine?: true;
}

const FREE_SPACE = "free some space and go on";

const REFUSALS: Readonly<Record<string, SystemRefusal>> = {
  ENOENT: { reason: "there is no such file or folder" },
  ENOTDIR: { reason: "a part of the path is a file, not a folder" },
  EISDIR: { reason: "it is a folder" },
  EEXIST: { reason: "something else is there already" },
  ENOTEMPTY: { reason: "the folder is not empty" },
  EACCES: { reason: "permission denied", fix: "change its mode or owner, or name another path" },
  EPERM: { reason: "the operation is not permitted", fix: "change its mode or owner, or name another path" },
  EROFS: { reason: "the file system is read-only", fix: "name a path on another one" },
  ELOOP: { reason: "its symbolic links lead in a circle" },
  ENAMETOOLONG: { reason: "the name is too long" },
  EXDEV: { reason: "it lies on another file system" },
  ETXTBSY: { reason: "it is in use" },
  ENOSPC: { reason: "no space is left on the disk", fix: FREE_SPACE, is_machine: true },
  EDQUOT: { reason: "the disk quota is used up", fix: FREE_SPACE, is_machine: true },
  EFBIG: { reason: "the file would be larger than the file system takes", is_machine: true },
  EIO: { reason: "the disk failed to read or write", is_machine: true },
  EMFILE: { reason: "too many files are open", fix: "raise the limit (ulimit -n)", is_machine: true },
  ENFILE: { reason: "the machine has too many open files", is_machine: true },
  ENOMEM: { reason: "the machine has no more memory", is_machine: true },
};

/** The operating system's name of an error, such as `ENOSPC`; null for any other error. */
function systemCode(error: unknown): string | null {
  const code = error instanceof Error ? (error as { code?: unknown }).code : null;
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : null;
}

/** The meaning of an operating-system error; null for any other error. */
export function systemRefusal(error: unknown): SystemRefusal | null {
  const code = systemCode(error);
  return code === null ? null : REFUSALS[code] ?? { reason: (error as Error).message };
}

/** The reason of an operating-system error; the message of any other error. */
export function reasonOf(error: unknown): string {
  return systemRefusal(error)?.reason ?? (error instanceof Error ? error.message : String(error));
}
