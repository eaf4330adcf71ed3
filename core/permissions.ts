/** The permissions of a worker or a process, put together from what its parts need. */

import { dirname } from "node:path";

const KINDS = ["read", "write", "net", "env", "run", "ffi", "sys"] as const;

/** The permissions that a part needs: `true` permits all of a kind; an absent kind permits nothing. */
export type PermissionNeeds = Readonly<Partial<Record<typeof KINDS[number], true | readonly string[]>>>;

/** The permissions for all parts together, and nothing else. */
export function permissionsFor(parts: readonly PermissionNeeds[]): Deno.PermissionOptionsObject {
  const permissions: Deno.PermissionOptionsObject = { import: false };
  for (const kind of KINDS) {
    const needs = parts.map((part) => part[kind] ?? []);
    const named = [...new Set(needs.flatMap((need) => need === true ? [] : need))];
    permissions[kind] = needs.includes(true) || (named.length > 0 && named);
  }
  return permissions;
}

/**
 * The permissions as flags of a process. Deno's flags cannot express a comma, so a file or folder with one is replaced
 * by its nearest folder without.
 */
export function permissionFlags(parts: readonly PermissionNeeds[]): string[] {
  const permissions = permissionsFor(parts);
  return KINDS.flatMap((kind) => {
    const granted = permissions[kind];
    if (!Array.isArray(granted)) return granted === true ? [`--allow-${kind}`] : [];
    const values = kind === "read" || kind === "write"
      ? granted.map((path) => grantable(String(path)))
      : granted;
    return [`--allow-${kind}=${values.join(",")}`];
  });
}

function grantable(path: string): string {
  return path.includes(",") ? grantable(dirname(path)) : path;
}
