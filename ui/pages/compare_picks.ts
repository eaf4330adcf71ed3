/** Which attempt of each run is shown, as the address has it: `run_a:8.3,run_b:6.0` are update and member. */

/** An attempt of a run at a scenario. */
export interface Pick {
  update: number;
  member: number;
}

/** The picks of an address by run; what is not written so is left out. */
function picksOf(text: string | null): Map<string, Pick> {
  const found = (text ?? "").matchAll(/([^,:]+):(\d+)\.(\d+)(?=,|$)/g);
  return new Map([...found].map(([, run, update, member]) => [
    run!,
    { update: Number(update), member: Number(member) },
  ]));
}

/** The pick of a run; null when the address has none. */
export function pickOf(text: string | null, run: string): Pick | null {
  return picksOf(text).get(run) ?? null;
}

/** The address's picks with that of a run. */
export function withPick(text: string | null, run: string, pick: Pick): string {
  const picks = picksOf(text).set(run, pick);
  return [...picks].map(([run, { update, member }]) => `${run}:${update}.${member}`).join(",");
}
