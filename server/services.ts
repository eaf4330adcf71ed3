/** The services for route handlers. */

import type { ServerConfig } from "../config/server.ts";
import type { Clock } from "../core/clock.ts";
import type { ObservedRuns } from "../runs/views/observed_runs.ts";
import type { DeviceCard } from "./capabilities.ts";
import type { OpenApiDocument } from "./openapi_schema.ts";
import type { RunSource } from "./run_source.ts";

export interface Services {
  config: ServerConfig;
  clock: Clock;
  /** Seconds since the server started, rounded down. */
  uptimeSeconds(): number;
  /** The machine's devices, the one that a run would take first. @throws The probe's error. */
  devices(): Promise<DeviceCard[]>;
  /** The runs of this server. */
  runs: RunSource;
  /** The trajectories in observe directories. */
  trajectories: ObservedRuns;
  /** The OpenAPI document of this server's routes. */
  openApi(): OpenApiDocument;
}
