/** `[agent.environment]` */

import { z } from "zod";
import { CONTAINER_DEFAULTS } from "./defaults.ts";
import { command, httpUrl, integer, name, number, text, variableName } from "./fields.ts";

/** The tools of the built-in toolsets, in order. */
export const BUILTIN_TOOLS = {
  files: ["read_file", "write_file", "list_dir", "submit"],
  python: [
    ...["bash", "python", "run_tests", "read_file", "write_file", "edit_file", "list_dir", "grep", "submit"],
  ],
  typescript: [
    ...[
      "bash",
      "typescript",
      "run_tests",
      "read_file",
      "write_file",
      "edit_file",
      "list_dir",
      "grep",
      "submit",
    ],
  ],
} as const;

/** A toolset with a built-in name. */
export type BuiltinToolset = keyof typeof BUILTIN_TOOLS;

/** The toolsets with a built-in name. */
export const BUILTIN_TOOLSETS = Object.keys(BUILTIN_TOOLS) as BuiltinToolset[];

/** The built-in toolsets in the order in which a tool's name is looked up. */
const LOOKED_UP: readonly BuiltinToolset[] = ["python", "typescript", "files"];

/**
 * The built-in tool that a custom toolset names: a tool of `python`, else of `typescript`, else of `files`, or the tool of
 * a toolset that is named before a dot, such as `typescript.run_tests`. Null when there is none.
 */
export function builtinTool(name: string): { toolset: BuiltinToolset; tool: string } | null {
  const [first, second] = name.split(".", 2) as [string, string | undefined];
  const found = LOOKED_UP.find((toolset) => {
    const tools: readonly string[] = BUILTIN_TOOLS[toolset];
    return second === undefined ? tools.includes(name) : toolset === first && tools.includes(second);
  });
  return found === undefined ? null : { toolset: found, tool: second ?? name };
}

/** All names by which a custom toolset may name a built-in tool without a toolset. */
export const BUILTIN_TOOL_NAMES: readonly string[] = [...new Set(Object.values(BUILTIN_TOOLS).flat())];

/** Where tools can run. */
export const ENVIRONMENT_TYPES = ["container", "local", "http"] as const;

/** One of {@link ENVIRONMENT_TYPES}. */
export type EnvironmentType = typeof ENVIRONMENT_TYPES[number];

const customToolSchema = z.strictObject({
  name: name().meta({ description: "Name that the model calls." }),
  description: z.string().meta({ description: "What the tool does, for the model." }),
  parameters: z.record(z.string(), z.json()).meta({ description: "JSON Schema of the arguments." }),
  command: command().meta({ description: "Program run in the sandbox; reads the arguments as JSON." }),
});

/** A tool of a custom toolset that is not built in. */
export type CustomToolConfig = z.output<typeof customToolSchema>;

const toolsetSchema = z.strictObject({
  version: z.union([z.int().min(0), text()]).meta({
    description: "Version; change it whenever definitions or result texts change.",
  }),
  tools: z.array(z.union([name(), customToolSchema])).min(1).meta({
    description: "Names of built-in tools, and tables of custom ones.",
  }),
});

/** A custom toolset. */
export type ToolsetConfig = z.output<typeof toolsetSchema>;

const limitsSchema = z.strictObject({
  cpus: number("agent.environment.limits.cpus").optional().meta({
    description: "Processors of a container.",
    example: 1,
    rule: String(CONTAINER_DEFAULTS.cpus),
  }),
  memory_mb: integer("agent.environment.limits.memory_mb").optional().meta({
    description: "Memory of a container in MiB.",
    example: 1024,
    rule: String(CONTAINER_DEFAULTS.memory_mb),
  }),
  exec_timeout_secs: integer("agent.environment.limits.exec_timeout_secs").default(30).meta({
    description: "Limit of each command (a tool, a line of setup, verify) and of each request to a server.",
  }),
});

const poolSchema = z.strictObject({
  max_live: integer("agent.environment.pool.max_live").optional().meta({
    description: "Containers alive at once.",
    example: 8,
    rule: "agent.concurrent_rollouts",
  }),
  reuse: z.enum(["never", "workspace"]).optional().meta({
    description: "never: a new container for each trajectory; workspace: containers are cleaned and reused.",
    rule: "never",
    example: "workspace",
  }),
});

export const environmentSchema = z.strictObject({
  type: z.enum(ENVIRONMENT_TYPES).optional().meta({
    description: "Where tools run: in containers, in folders of this machine, or on your own server.",
    rule: "must be given unless id is",
  }),
  id: name().optional().meta({ description: "An environment of the server's catalogue.", rule: "none" }),
  profile: z.enum(["python", "typescript", "custom"]).optional().meta({
    description: "A container's image and default toolset.",
    rule: "none",
    example: "python",
  }),
  image: text().optional().meta({
    description: "The image of a container; profile custom needs one.",
    rule: "the profile's",
    example: `registry.example/image@sha256:${"0".repeat(64)}`,
  }),
  runtime: text().optional().meta({
    description: "The OCI runtime of a container, such as runsc (gVisor).",
    rule: "that of the engine, Podman or Docker",
    example: "runsc",
  }),
  allow_network: z.boolean().optional().meta({
    description: "Whether a container has a network.",
    rule: "false",
    example: true,
  }),
  allow_unsandboxed: z.boolean().default(false).meta({
    description: "Must be true for type local: the model's tool calls act on this machine.",
  }),
  base_url: httpUrl().optional().meta({
    description: "Address of an environment server.",
    rule: "must be given with type http",
    example: "http://127.0.0.1:8765",
  }),
  api_key_env: variableName().optional().meta({
    description: "Environment variable that holds the key of the environment server.",
    rule: "no key is sent",
    example: "ENVIRONMENT_KEY",
  }),
  protect: z.array(text()).optional().meta({
    description: "Globs of workspace files restored before verification.",
    rule: "the files that the verify command names, test_*, *_test.* and tests/**",
    example: ["tests/**"],
  }),
  tools: z.strictObject({
    default: name().optional().meta({
      description: "Toolset of scenarios that do not name one.",
      rule: "the profile's; without a profile a scenario must name one",
      example: "files",
    }),
  }).prefault({}).meta({ description: "Tools of the environment." }),
  scenario_toolsets: z.array(name()).default([]).meta({
    description: "Toolsets that a scenario may name besides the default.",
  }),
  toolsets: z.record(name(), toolsetSchema).default({}).meta({ description: "Custom toolsets by name." }),
  limits: limitsSchema.prefault({}).meta({ description: "Limits of a trajectory's sandbox." }),
  pool: poolSchema.prefault({}).meta({ description: "How containers are allocated." }),
});
