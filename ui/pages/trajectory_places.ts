/** Where groups and their members are. */

/** A group of an update. */
export interface GroupPlace {
  id: string;
  update: string;
  group: string;
}

export interface MemberPlace extends GroupPlace {
  member: number;
}

/** The address of a group. */
export function segmentsTo({ id, update, group }: GroupPlace): string[] {
  return ["runs", id, "trajectories", update, group];
}

/** What stands beside an attempt: `3` of its own group, or `4-0-3` of update 4 and group 0; null for nothing. */
export function besideOf(at: GroupPlace, text: string | null): MemberPlace | null {
  const [, elsewhere, update = "", group = "", member = ""] =
    /^((\d{1,9})-(\d{1,9})-)?(\d{1,9})$/.exec(text ?? "") ?? [];
  if (member === "") return null;
  return { ...at, ...(elsewhere !== undefined && { update, group }), member: Number(member) };
}

/** The update that is so many steps away; null before the first one and after the newest. */
export function stepFrom(update: number, by: number, newest: number | undefined): number | null {
  const next = update + by;
  return next >= 1 && next <= (newest ?? update) ? next : null;
}
