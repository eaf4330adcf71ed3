/** `svc doctor`: whether this machine can train, and what is missing. */

import type { Command } from "commander";
import { findIsolation } from "../agent/environment/bubblewrap.ts";
import { engineText, findEngine } from "../agent/environment/container_engine.ts";
import { canFindLeftovers } from "../agent/environment/leftovers.ts";
import { isolationText } from "../agent/environment/local.ts";
import { denoFolder, SEARCH_PATH } from "../agent/environment/program.ts";
import { HAS_MCP } from "../config/check/built.ts";
import { ENVIRONMENT_KINDS, missingPart } from "../config/environments.ts";
import type { DeviceFacts, GpuCard } from "../core/device.ts";
import { deviceFolder, isTuned, tuningDevices } from "../core/device_lock.ts";
import { ServiceError } from "../core/errors.ts";
import { formatBytes, jsonText } from "../core/text.ts";
import { VERSION_TEXT } from "../core/version.ts";
import { openCheckedGpu } from "../kernels/canary/open_checked.ts";
import { tuningText } from "../kernels/tuning/tuned_gpu.ts";
import type { CliContext } from "./context.ts";
import { LOADER_VARIABLES } from "./environment.ts";
import { EXIT } from "./exit_codes.ts";
import { printRows, type Row, styled } from "./terminal.ts";

/** Programs of environments of type "local", with their use. Tools look for them in the usual folders. */
const LOCAL_PROGRAMS: readonly [name: string, use: string][] = [
  ["sh", "scenarios' setup lines and checks"],
  ["bash", "toolsets"],
  ["grep", "toolsets"],
  ["python3", 'the toolset "python"'],
];

/** Other programs that parts of svc need, with their use. */
const PROGRAMS: readonly [name: string, use: string][] = [
  ...Object.entries(ENVIRONMENT_KINDS).flatMap(([type, kind]) => {
    const { programs } = kind, missing_part = missingPart(kind);
    const use = missing_part === null
      ? `environments of type ${JSON.stringify(type)}`
      : `${missing_part}, which is not in this build`;
    return programs.map((name): [string, string] => [name, use]);
  }),
];

const PERMISSIONS = ["read", "write", "run", "net", "env", "sys"] as const;

/** The first file with this name on a search path. */
async function findProgram(name: string, search = Deno.env.get("PATH") ?? ""): Promise<string | null> {
  const separator = Deno.build.os === "windows" ? ";" : ":";
  for (const folder of search.split(separator)) {
    const path = `${folder}/${name}`;
    const info = await Deno.stat(path).catch(() => null);
    if (info?.isFile) return path;
  }
  return null;
}

/** The command that installs a WebGPU adapter on this machine. */
export function installCommand(system: string, is_root: boolean): string {
  if (system !== "linux") return "install the driver of your graphics card";
  const install = "apt-get update && apt-get install -y libvulkan1 mesa-vulkan-drivers";
  return is_root ? install : `sudo sh -c '${install}'`;
}

/** What is not used because of the device's driver. */
export function leftOutFact({ left_out = [] }: Pick<DeviceFacts, "left_out">): string {
  return left_out.join("; ") || "none";
}

async function deviceRows(card: GpuCard): Promise<Row[]> {
  const { facts } = card, { limits } = facts, is_tuned = isTuned(tuningDevices(), facts);
  const rows: Row[] = [
    ["device", `${facts.name}${facts.software ? " (software adapter: for trying out and for tests)" : ""}`],
    ["webgpu", `${facts.webgpu}: ${facts.webgpu_reason}`],
    ["backend", `${facts.backend}, driver ${facts.driver || "unknown"}`],
    ["features", facts.features.join(", ") || "none"],
    ["forms left out", leftOutFact(facts)],
    ["layouts of products", await tuningText(deviceFolder(), card, is_tuned)],
  ];
  for (const name of ["maxBufferSize", "maxStorageBufferBindingSize"]) {
    if (limits[name] !== undefined) rows.push([name, formatBytes(limits[name])]);
  }
  return rows;
}

async function machineRows(): Promise<Row[]> {
  const rows: Row[] = [
    ["svc", VERSION_TEXT],
    ["deno", `${Deno.version.deno} (V8 ${Deno.version.v8}, TypeScript ${Deno.version.typescript})`],
    [
      "system",
      `${Deno.build.os} ${Deno.osRelease()} ${Deno.build.arch}, ${navigator.hardwareConcurrency} cores`,
    ],
    ["memory", formatBytes(Deno.systemMemoryInfo().total)],
  ];
  for (const name of PERMISSIONS) {
    const { state } = await Deno.permissions.query({ name });
    if (state !== "granted") rows.push([`permission ${name}`, `${state}: run Deno with --allow-${name}`]);
  }
  for (const name of LOADER_VARIABLES) rows.push([name, Deno.env.get(name) ?? "not set"]);
  for (const [name, use] of LOCAL_PROGRAMS) {
    rows.push([name, await findProgram(name, SEARCH_PATH) ?? `not found (used by ${use} of type "local")`]);
  }
  for (const [name, use] of PROGRAMS) {
    rows.push([name, await findProgram(name) ?? `not found (used by ${use})`]);
  }
  rows.push(["local sandbox", isolationText(await findIsolation())]);
  rows.push(["typescript tools", typescriptFact(denoFolder())]);
  rows.push(["http environments", "need nothing here: agent.environment.base_url names your server"]);
  rows.push(["containers", await containersText()]);
  rows.push(["MCP servers", HAS_MCP ? "as tools, local and remote" : "not in this build (mcp)"]);
  rows.push(["processes that commands leave", leftoversFact(await canFindLeftovers())]);
  return rows;
}

/** Which `deno` runs the toolset "typescript" in environments of type "local". */
export function typescriptFact(folder: string | null): string {
  return folder === null
    ? "need a deno in a usual folder, such as /usr/local/bin"
    : `run with ${folder}/deno`;
}

/** The engine that starts containers, or why none can. */
async function containersText(): Promise<string> {
  if (missingPart(ENVIRONMENT_KINDS.container) !== null) return "not in this build (containers)";
  try {
    return engineText(await findEngine());
  } catch (error) {
    if (error instanceof ServiceError) return error.message;
    throw error;
  }
}

/** The consequence of whether leftover processes of scenarios' commands can be found. */
export function leftoversFact(are_found: boolean): string {
  return are_found
    ? "are found and ended"
    : "are found only in the command's own process group (needs Linux with /proc and grep -z)";
}

/** Opens and closes a device, and returns what is known of it. Null when there is none. */
async function probeDevice(): Promise<GpuCard | null> {
  try {
    const { device, ...card } = await openCheckedGpu({ device: "auto", webgpu: "auto" });
    device.destroy();
    return card;
  } catch (error) {
    if (error instanceof ServiceError && error.code === "device_unavailable") return null;
    throw error;
  }
}

/** Adds the command. */
export function addDoctorCommand(program: Command, { terminal, setExitCode }: CliContext): void {
  program.command("doctor").description("check whether this machine can train, and print what is missing")
    .option("--json", "print the facts as JSON")
    .action(async ({ json }: { json?: true }) => {
      const card = await probeDevice(), facts = card?.facts ?? null;
      const is_root = Deno.build.os !== "windows" && Deno.uid() === 0;
      const install = facts ? null : installCommand(Deno.build.os, is_root);
      if (!facts) setExitCode(EXIT.no_device);
      const rows = [...(card ? await deviceRows(card) : []), ...await machineRows()];
      if (json) {
        return terminal.line(
          jsonText({ device: facts, install, facts: Object.fromEntries(rows) }, 2),
        );
      }
      printRows(terminal, rows);
      terminal.line("");
      if (install === null) return terminal.line(styled(terminal, "green", "this machine can train"));
      terminal.line(styled(terminal, "red", "no WebGPU adapter was found; this command is missing:"));
      terminal.line(`  ${install}`);
    });
}
