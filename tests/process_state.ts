/** Whether processes of tests still run, by the `proc` file system of Linux. */

/** Whether a process is gone, or dead and not yet reaped. */
export async function isDead(pid: number | string): Promise<boolean> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => null);
  // The state follows the name, which is in parentheses and may have any text.
  return stat === null || /^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}
