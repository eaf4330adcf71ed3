/** Whether processes of tests still run, by the `proc` file system of Linux. */

/** Whether a process is gone, or dead and not yet reaped. */
export async function isDead(pid: number | string): Promise<boolean> {
  const stat = await Deno.readTextFile(`/proc/${pid}/stat`).catch(() => null);
  // The state follows the name, which is in parentheses and may have any text.
  return stat === null || /^[ZX]/.test(stat.slice(stat.lastIndexOf(")") + 2));
}

/** Whether a killed process dies: between its kill and its death it is seen alive. The number of looks is limited. */
export async function diesSoon(pid: string): Promise<boolean> {
  for (let look = 0; look < 5000; look++) {
    if (await isDead(pid)) return true;
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  return false;
}
