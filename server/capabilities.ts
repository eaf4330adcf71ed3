/** What `GET /v1/capabilities` answers. */

import { parseBudget, type ServerConfig } from "../config/server.ts";
import { VERSION } from "../core/version.ts";

/** A device as the API shows it. */
export interface DeviceCard {
  name: string;
  backend: string;
  driver: string;
  features: string[];
  limits: Record<string, number>;
  /** Null where the driver does not tell. */
  vram_bytes: number | null;
  software: boolean;
}

export interface CapabilityFacts {
  devices: readonly DeviceCard[];
  ram_bytes: number;
}

/** A budget of the configuration against the memory that there is. */
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

/** Only what the contract names: whoever probes may know more. */
function deviceCard(
  { name, backend, driver, features, limits, vram_bytes, software }: DeviceCard,
): DeviceCard {
  return { name, backend, driver, features, limits, vram_bytes, software };
}

export function capabilities(config: ServerConfig, { devices, ram_bytes }: CapabilityFacts) {
  return {
    version: VERSION,
    features: {
      ui: false,
      auth: config.auth_token !== undefined,
      serving_enabled: config.serving.enabled,
      mcp: false,
      containers: false,
    },
    devices: devices.map(deviceCard),
    budgets: {
      vram: budgetCard(config.limits.vram, devices[0]?.vram_bytes ?? null),
      ram: budgetCard(config.limits.ram, ram_bytes),
    },
    algorithms: ["sft", "agent_grpo"],
    tensor_types: ["F32", "F16", "BF16", "Q8_0"],
    architectures: ["qwen3"],
    environments: {
      container: { available: false, reason: "The container sandbox is not in this build" },
      local: true,
      http: false,
    },
    limits: {
      max_body_bytes: config.max_body_bytes,
      max_dataset_bytes: config.max_dataset_bytes,
      max_concurrent_runs: config.max_concurrent_runs,
    },
  };
}
