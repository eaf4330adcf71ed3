/** The permissions of a worker, put together from what its parts need. */

const KINDS = ["read", "write", "net", "env", "run", "ffi"] as const;

/** What a part needs; true is all of a kind, an absent kind is none of it. */
export type PermissionNeeds = Readonly<Partial<Record<typeof KINDS[number], true | readonly string[]>>>;

/** The permissions for all parts together, and nothing else. */
export function permissionsFor(parts: readonly PermissionNeeds[]): Deno.PermissionOptionsObject {
  const permissions: Deno.PermissionOptionsObject = { sys: false, import: false };
  for (const kind of KINDS) {
    const needs = parts.map((part) => part[kind] ?? []);
    const named = [...new Set(needs.flatMap((need) => need === true ? [] : need))];
    permissions[kind] = needs.includes(true) || (named.length > 0 && named);
  }
  return permissions;
}
