/**
 * What system calls a container may make. Docker's own profile denies namespaces and mounts to users without rights;
 * Podman's allows them, so that a program could be root of a user namespace.
 */

import { isJsonObject } from "../../../core/json.ts";

/** Denied: namespaces, mounts, the kernel's keyrings, which containers share, and what acts on other processes. */
const DENIED = [
  ...["unshare", "setns", "mount", "umount", "umount2", "pivot_root", "mount_setattr"],
  ...["fsopen", "fsmount", "fsconfig", "fspick", "move_mount", "open_tree"],
  ...["keyctl", "add_key", "request_key"],
  ...["ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp"],
];

/** What a file carries besides its content and its permissions stays with a folder that is cleaned for another attempt. */
const UNSUPPORTED = ["setxattr", "lsetxattr", "fsetxattr", "setxattrat"];

/** All CLONE_NEW* flags of `clone`. */
const NAMESPACE_FLAGS = 0x7e020000;

const EPERM = 1, ENOSYS = 38, ENOTSUP = 95;

/** A profile that allows what another one does, without namespaces, mounts and keyrings; null for an unknown form. */
export function strictProfile(profile: unknown): object | null {
  if (!isJsonObject(profile) || !Array.isArray(profile.syscalls)) return null;
  const ours = new Set([...DENIED, ...UNSUPPORTED, "clone", "clone3"]);
  const kept = profile.syscalls.flatMap((rule) => {
    if (!isJsonObject(rule) || !Array.isArray(rule.names)) return [];
    const names = rule.names.filter((name) => !ours.has(name));
    return names.length > 0 ? [{ ...rule, names }] : [];
  });
  const flags = { index: 0, value: NAMESPACE_FLAGS, valueTwo: 0, op: "SCMP_CMP_MASKED_EQ" };
  return {
    ...profile,
    syscalls: [
      ...kept,
      { names: DENIED, action: "SCMP_ACT_ERRNO", errnoRet: EPERM },
      { names: UNSUPPORTED, action: "SCMP_ACT_ERRNO", errnoRet: ENOTSUP },
      { names: ["clone"], action: "SCMP_ACT_ALLOW", args: [flags] },
      // Its flags are in memory, where a filter cannot see them. Libraries use clone then.
      { names: ["clone3"], action: "SCMP_ACT_ERRNO", errnoRet: ENOSYS },
    ],
  };
}

/**
 * Writes the profile of containers to a new file.
 *
 * @param path The engine's own profile.
 * @returns Whether it did; not where the engine's profile is not on this machine: it applies then.
 */
export async function writeProfile(path: string, target: string): Promise<boolean> {
  const text = await Deno.readTextFile(path).catch(() => null);
  if (text === null) return false;
  const strict = strictProfile(parsedJson(text));
  if (strict) await Deno.writeTextFile(target, JSON.stringify(strict), { createNew: true, mode: 0o600 });
  return strict !== null;
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
