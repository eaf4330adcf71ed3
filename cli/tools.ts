/** `svc tools list`: lists the tools for the model, without loading a model. */

import type { Command } from "commander";
import { configuredWorld } from "../agent/configured.ts";
import { findIsolation } from "../agent/environment/bubblewrap.ts";
import { isolationText } from "../agent/environment/local.ts";
import { loadRunConfig } from "../config/check/load.ts";
import type { RunConfig } from "../config/schema.ts";
import { openAiTool, type ToolDefinition } from "../core/chat.ts";
import { systemClock } from "../core/clock.ts";
import { indented, jsonText, printable } from "../core/text.ts";
import type { CliContext } from "./context.ts";
import { passMessages } from "./interruptible.ts";
import { overridesArgument } from "./options.ts";
import { printNotice, styled, type Terminal } from "./terminal.ts";

/** An offered catalogue: the definitions exactly as in prompts. */
export interface ToolListing {
  toolset: string;
  version: string;
  default: boolean;
  tools: ToolDefinition[];
}

/**
 * All catalogues that scenarios of a run may have, the default first; those without tools are left out.
 *
 * @param tell Receives the messages of the hosts of tools.
 */
export async function listTools(
  config: RunConfig,
  tell: (message: string) => void,
): Promise<ToolListing[]> {
  const world = configuredWorld(config, { clock: systemClock });
  if (!world) return [];
  try {
    const catalogs = await world.environments.catalogs(new AbortController().signal);
    return catalogs.filter(({ tools }) => tools.length > 0).map(({ name, version, is_default, tools }) => ({
      toolset: name,
      version,
      default: is_default,
      tools: tools.map(openAiTool),
    }));
  } finally {
    await world.close();
    await passMessages(world.messages, tell);
  }
}

function parameterNames(parameters: Record<string, unknown>): string {
  const names = Object.keys((parameters.properties ?? {}) as Record<string, unknown>);
  const required = (parameters.required ?? []) as string[];
  return names.map((name) => required.includes(name) ? name : `${name}?`).join(", ");
}

function printListing(
  terminal: Terminal,
  { toolset, version, default: is_default, tools }: ToolListing,
): void {
  const title = `toolset ${toolset}, version ${version}${is_default ? " (default)" : ""}`;
  terminal.line(styled(terminal, "bold", printable(title)));
  for (const { function: { name, description, parameters } } of tools) {
    terminal.line(printable(indented(`  ${name}(${parameterNames(parameters ?? {})})  ${description}`)));
  }
}

/** Adds the command. */
export function addToolsCommand(program: Command, { terminal }: CliContext): void {
  const tools = program.command("tools").description("about the tools of a configuration");
  tools.command("list").description("list the tools that a configuration exposes")
    .argument("<config>", "run configuration (TOML)").addArgument(overridesArgument())
    .option("--json", "print the exact catalogue")
    .action(async (path: string, overrides: string[], { json }: { json?: true }) => {
      const { config } = await loadRunConfig(path, { check_paths: false, overrides });
      const tell = (message: string) => printNotice(terminal, message);
      if (config.agent?.environment?.type === "local") tell(isolationText(await findIsolation()));
      const listing = await listTools(config, tell);
      if (json) return terminal.line(jsonText(listing, 2));
      if (listing.length === 0) terminal.line("this configuration exposes no tools");
      for (const toolset of listing) printListing(terminal, toolset);
    });
}
