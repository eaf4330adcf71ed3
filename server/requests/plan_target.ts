/** The device and the memory for which a run is planned. */

import { parseBudget, type ServerConfig } from "../../config/server/schema.ts";
import type { PlanTarget } from "../../runs/plan/plan.ts";
import { Problem } from "../http/problems.ts";
import type { ProbedDevice, Services } from "../routing/services.ts";

/** Without Retry-After, because only the operator can change this. */
const NO_DEVICE =
  "This machine has no device for runs, and waiting does not help: the operator has to install what " +
  "`svc doctor` names and start the server again";

/** The smaller of the server's budget, of which each run gets an equal share, and the request's; null when unknown. */
function budgetBytes(
  total_bytes: number | null,
  { server, request, runs }: { server: unknown; request: unknown; runs: number },
): number | null {
  const bytes = [server, request ?? "all"].map((requested, i) => {
    const budget = parseBudget(requested);
    const available = total_bytes === null ? null : i === 0 ? total_bytes : Math.floor(total_bytes / runs);
    if (budget === "all" || budget === null) return available;
    if ("bytes" in budget) return budget.bytes;
    return available === null ? null : Math.floor(available * budget.share);
  });
  const [shared, own] = [bytes[0] === null ? null : Math.floor(bytes[0]! / runs), bytes[1]!];
  if (shared === null || own === null) return shared ?? own;
  return Math.min(shared, own);
}

/**
 * The device for which a run is planned: a software adapter if the run asks for one and the machine has one, else the
 * machine's first device. For a machine without devices it is the assumed one, as a software adapter if the run asks for
 * that.
 */
async function deviceFor(
  is_software: boolean,
  { devices, assumed_device }: Pick<Services, "devices" | "assumed_device">,
): Promise<ProbedDevice | null> {
  const all = await devices();
  if (all.length > 0) return (is_software ? all.find(({ software }) => software) : undefined) ?? all[0]!;
  return is_software && assumed_device
    ? { ...assumed_device, software: true, vram_bytes: null }
    : assumed_device;
}

/**
 * What a run is planned for. The memory of a software adapter is the machine's.
 *
 * @param is_software Whether the run asks for a software adapter.
 */
export async function planTarget(
  { config, ...services }: Pick<Services, "devices" | "assumed_device"> & {
    config: Pick<ServerConfig, "limits" | "max_concurrent_runs">;
  },
  limits: { vram?: unknown; ram?: unknown },
  is_software = false,
): Promise<PlanTarget> {
  const device = await deviceFor(is_software, services);
  if (!device) throw new Problem("device-busy", NO_DEVICE);
  const { subgroup_size, ...facts } = device;
  const runs = config.max_concurrent_runs, ram_bytes = Deno.systemMemoryInfo().total;
  return {
    card: { facts, subgroup_size },
    vram_bytes: budgetBytes(facts.vram_bytes, { server: config.limits.vram, request: limits.vram, runs }),
    ram_bytes: budgetBytes(ram_bytes, { server: config.limits.ram, request: limits.ram, runs })!,
  };
}
