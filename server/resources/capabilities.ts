/** Builds the answer of `GET /v1/capabilities`. */

import { z } from "zod";
import { BUILT_ALGORITHMS, HAS_MCP } from "../../config/check/built.ts";
import { ALGORITHMS } from "../../config/algorithms.ts";
import {
  ENVIRONMENT_KINDS,
  type EnvironmentFeature,
  type EnvironmentKind,
  missingPart,
} from "../../config/environments.ts";
import { ENVIRONMENT_TYPES, type EnvironmentType } from "../../config/sections/environment.ts";
import { parseBudget, type ServerConfig } from "../../config/server/schema.ts";
import type { DeviceFacts } from "../../core/device.ts";
import { VERSION } from "../../core/version.ts";
import { WEBGPU_PROVIDERS } from "../../core/webgpu_providers.ts";
import { ARCHITECTURE_NAMES } from "../../runs/models/architectures.ts";
import { TENSOR_TYPES } from "../../runs/models/tensor_types.ts";
import type { Availability } from "../routing/services.ts";

const deviceSchema = z.strictObject({
  name: z.string(),
  webgpu: z.enum(WEBGPU_PROVIDERS).meta({ description: "The WebGPU implementation." }),
  webgpu_reason: z.string().meta({ description: "Why it is this implementation." }),
  backend: z.string(),
  driver: z.string(),
  features: z.array(z.string()),
  left_out: z.array(z.string()).meta({
    description:
      "The forms of kernels that are not used, because the driver does not compile them, computes them wrong, or gives them " +
      "other bits than those that they must have. Only GPUs are tested.",
  }),
  limits: z.record(z.string(), z.number()),
  vram_bytes: z.number().nullable().meta({ description: "Null where the driver does not tell." }),
  software: z.boolean(),
}).meta({ id: "Device" });

/** A device as the API shows it. */
type DeviceCard = z.output<typeof deviceSchema>;

const budgetSchema = z.strictObject({
  requested: z.union([z.string(), z.number()]).meta({ description: "As the configuration has it." }),
  total_bytes: z.number().nullable(),
  effective_bytes: z.number().nullable(),
}).meta({ id: "Budget" });

/** A value for each type of environment. */
function byEnvironment<T>(valueOf: (kind: EnvironmentKind) => T): Record<EnvironmentType, T> {
  const entries = ENVIRONMENT_TYPES.map((type) => [type, valueOf(ENVIRONMENT_KINDS[type])]);
  return Object.fromEntries(entries) as Record<EnvironmentType, T>;
}

const availabilitySchema = z.strictObject({ available: z.boolean(), reason: z.string().nullable() });

export const capabilitiesSchema = z.strictObject({
  version: z.string(),
  features: z.strictObject({
    ui: z.boolean(),
    auth: z.boolean(),
    serving_enabled: z.boolean(),
    mcp: z.boolean(),
    containers: z.boolean(),
  }),
  devices: z.array(deviceSchema).meta({ description: "The one that a run would take stands first." }),
  budgets: z.strictObject({ vram: budgetSchema, ram: budgetSchema }),
  algorithms: z.array(z.enum(ALGORITHMS)),
  tensor_types: z.array(z.string()),
  architectures: z.array(z.string()),
  environments: z.strictObject(
    byEnvironment(({ programs }): z.ZodType<Availability | boolean> =>
      programs.length > 0 ? availabilitySchema : z.boolean()
    ),
  ),
  limits: z.strictObject({
    max_body_bytes: z.int().gte(0),
    max_dataset_bytes: z.int().gte(0),
    max_concurrent_runs: z.int().gte(0),
  }),
}).meta({ id: "Capabilities", description: "What this server and its machine have." });

type Capabilities = z.output<typeof capabilitiesSchema>;

export interface CapabilityFacts {
  devices: readonly DeviceFacts[];
  ram_bytes: number;
  /** Whether the web interface is served. */
  has_interface: boolean;
  /** Whether this machine has what types with programs need; null when it was not asked. */
  containers: Availability | null;
}

/** A memory budget of the configuration, compared with the available memory. */
export function budgetCard(requested: string | number, total_bytes: number | null) {
  const budget = parseBudget(requested)!;
  let effective_bytes = total_bytes;
  if (budget !== "all") {
    if ("share" in budget) {
      effective_bytes = total_bytes === null ? null : Math.floor(total_bytes * budget.share);
    } else effective_bytes = Math.min(budget.bytes, total_bytes ?? Infinity);
  }
  return { requested, total_bytes, effective_bytes };
}

/** Only fields of the contract, because a probe may return more. */
function deviceCard(
  { name, webgpu, webgpu_reason, backend, driver, features, left_out = [], ...others }: DeviceFacts,
): DeviceCard {
  const { limits, vram_bytes, software } = others;
  return { name, webgpu, webgpu_reason, backend, driver, features, left_out, limits, vram_bytes, software };
}

/** "The container sandbox is not in this build", in the words of the configuration's refusals. */
function lackText(part: string): string {
  return `${part[0]!.toUpperCase()}${part.slice(1)} is not in this build`;
}

function availabilityOf(kind: EnvironmentKind, on_machine: Availability | null): Availability | boolean {
  const missing_part = missingPart(kind), available = missing_part === null;
  if (kind.programs.length === 0) return available;
  if (!available) return { available, reason: lackText(missing_part) };
  return on_machine ?? { available, reason: null };
}

function hasFeature(name: EnvironmentFeature): boolean {
  return Object.values(ENVIRONMENT_KINDS).some((kind) => kind.feature === name && missingPart(kind) === null);
}

export function capabilities(
  config: ServerConfig,
  { devices, ram_bytes, has_interface, containers }: CapabilityFacts,
): Capabilities {
  return {
    version: VERSION,
    features: {
      ui: has_interface,
      auth: config.auth_token !== undefined,
      serving_enabled: config.serving.enabled,
      mcp: HAS_MCP,
      containers: hasFeature("containers"),
    },
    devices: devices.map(deviceCard),
    budgets: {
      vram: budgetCard(config.limits.vram, devices[0]?.vram_bytes ?? null),
      ram: budgetCard(config.limits.ram, ram_bytes),
    },
    algorithms: [...BUILT_ALGORITHMS],
    tensor_types: [...TENSOR_TYPES],
    architectures: [...ARCHITECTURE_NAMES],
    environments: byEnvironment((kind) => availabilityOf(kind, containers)),
    limits: {
      max_body_bytes: config.max_body_bytes,
      max_dataset_bytes: config.max_dataset_bytes,
      max_concurrent_runs: config.max_concurrent_runs,
    },
  };
}
