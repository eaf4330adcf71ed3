/** The configuration file of `svc-server`. */

import { z } from "zod";
import { CATALOGUE_LISTS, CATALOGUE_TABLES, type CatalogueList } from "../check/catalogue_tables.ts";
import { OBSERVE_TARGET_UPDATES } from "../sections/defaults.ts";
import { text } from "../sections/fields.ts";
import { LOG_LEVELS } from "../../core/log.ts";

/** The accepted range of every numeric key of the server. */
export const SERVER_LIMITS = {
  max_concurrent_runs: { min: 1, max: 64 },
  max_queued_runs: { min: 0, max: 10_000 },
  command_timeout_seconds: { min: 1, max: 86_400 },
  observe_target_updates: { min: 1, max: 1_000_000 },
  max_body_bytes: { min: 1024, max: 1 << 30 },
  max_dataset_bytes: { min: 1024, max: 2 ** 42 },
  idle_seconds: { min: 1, max: 604_800 },
} as const;

function integer(key: keyof typeof SERVER_LIMITS): z.ZodNumber {
  return z.int().gte(SERVER_LIMITS[key].min).lte(SERVER_LIMITS[key].max);
}

const BIND = /^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+):(\d{1,5})$/;

/** Parses a `bind` value `host:port`; port 0 takes any free port. Null when it has another form. */
export function parseBind(bind: string): { host: string; port: number } | null {
  const match = BIND.exec(bind);
  if (!match || Number(match[2]) > 65_535) return null;
  return { host: match[1]!.replace(/^\[|\]$/g, ""), port: Number(match[2]) };
}

/** Whether an address can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host);
}

const BUDGET_UNITS: Readonly<Record<string, number>> = {
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
  TiB: 2 ** 40,
};

/** A part of a memory: all of it, a share, or a number of bytes. */
export type Budget = "all" | { share: number } | { bytes: number };

const BUDGET_TEXT = /^(\d+(?:\.\d+)?) ?(KiB|MiB|GiB|TiB)$/;

/** Reads `"all"`, a share in (0, 1], a byte count above 1, or text such as `"8GiB"`; null for anything else. */
export function parseBudget(value: unknown): Budget | null {
  if (value === "all") return "all";
  if (typeof value === "number" && value > 0 && value <= 1) return { share: value };
  if (typeof value === "number" && value > 1 && Number.isSafeInteger(value)) return { bytes: value };
  const match = typeof value === "string" ? BUDGET_TEXT.exec(value) : null;
  const bytes = match ? Math.floor(Number(match[1]) * BUDGET_UNITS[match[2]!]!) : 0;
  return bytes > 0 ? { bytes } : null;
}

/** How much of a memory may be used. */
export const budget = (memory: string) =>
  z.union([
    z.string().meta({ pattern: `^all$|${BUDGET_TEXT.source}` }),
    z.number().meta({ exclusiveMinimum: 0 }),
  ]).refine((value) => parseBudget(value) !== null, {
    error: 'must be "all", a share in (0, 1], a byte count above 1, or text such as "8GiB"',
  }).default("all").meta({ description: `How much of the ${memory} runs may use.` });

type EntrySchema<L extends CatalogueList> = typeof CATALOGUE_TABLES[L]["schema"];

/** The lists of the catalogue. */
const catalogue = Object.fromEntries(CATALOGUE_LISTS.map((list) => {
  const { schema, noun } = CATALOGUE_TABLES[list];
  return [list, z.array(schema).default([]).meta({ description: `Catalogue: each entry is ${noun}.` })];
})) as unknown as { [L in CatalogueList]: z.ZodDefault<z.ZodArray<EntrySchema<L>>> };

export const serverConfigSchema = z.strictObject({
  bind: z.string().refine((value) => parseBind(value) !== null, {
    error: 'must be an address and a port, such as "127.0.0.1:8471"',
  }).default("127.0.0.1:8471").meta({
    description: "Address and port to listen on; port 0 takes a free one.",
  }),
  data_dir: text().default("./svc-data").meta({ description: "Folder of runs, datasets and the index." }),
  auth_token: z.string().regex(/^[!-~]+$/, {
    error: "must be printable ASCII without spaces",
  }).optional().meta({ description: "The bearer token that every request then needs." }),
  ui: z.boolean().default(true).meta({
    description: "Whether to serve the web interface, if it is built in.",
  }),
  path_roots: z.array(text()).default([]).meta({
    description: "Folders that may contain the paths in requests.",
  }),
  redact_error_paths: z.boolean().default(false).meta({
    description: "Whether answers show only the last part of the machine's paths; the log has them in full.",
  }),
  max_concurrent_runs: integer("max_concurrent_runs").default(1).meta({
    description: "Runs that train at once.",
  }),
  max_queued_runs: integer("max_queued_runs").default(0).meta({
    description: "Runs that may wait for a slot.",
  }),
  command_timeout_seconds: z.number().gte(SERVER_LIMITS.command_timeout_seconds.min)
    .lte(SERVER_LIMITS.command_timeout_seconds.max).default(120)
    .meta({ description: "Limit of evaluate and generate." }),
  observe_target_updates: integer("observe_target_updates").default(OBSERVE_TARGET_UPDATES)
    .meta({ description: "Number of updates of a run whose trajectory texts are kept." }),
  max_body_bytes: integer("max_body_bytes").default(8 * 2 ** 20).meta({
    description: "Largest request body.",
  }),
  max_dataset_bytes: integer("max_dataset_bytes").default(4 * 2 ** 30).meta({
    description: "Largest dataset.",
  }),
  problem_type_base: z.string().refine(URL.canParse, { error: "must be a URI" }).default("urn:svc:problems")
    .meta({ description: "Prefix of a problem's type URI." }),
  allowed_hosts: z.array(
    z.string().regex(/^(\[[0-9a-fA-F:]+\]|[A-Za-z0-9.-]+)(:\d{1,5})?$/, {
      error:
        'must be a host as the Host header names it, such as "svc.example.org" or "svc.example.org:8443"',
    }),
  ).default([]).meta({ description: "Hosts that requests may name beside the loopback names." }),
  limits: z.strictObject({ vram: budget("device's memory"), ram: budget("machine's memory") }).prefault({})
    .meta({ description: "Memory that all runs share." }),
  log: z.strictObject({
    level: z.enum(LOG_LEVELS).default("info").meta({
      description: "Which lines the server logs to standard error; info has one for each request.",
    }),
  }).prefault({}).meta({ description: "The server's log." }),
  serving: z.strictObject({
    enabled: z.boolean().default(false).meta({ description: "Whether to serve chat completions." }),
    idle_seconds: integer("idle_seconds").default(300).meta({
      description: "Idle time until a model is unloaded.",
    }),
    record: z.boolean().default(false).meta({
      description: "Whether conversations are recorded with their tokens, in data_dir/conversations.",
    }),
  }).prefault({}).meta({ description: "OpenAI-compatible serving." }),
  ...catalogue,
});

/** The checked configuration of `svc-server` with defaults filled in. */
export type ServerConfig = z.output<typeof serverConfigSchema>;
