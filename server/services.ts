/** The services for route handlers. */

import type { ServerConfig } from "../config/server.ts";
import type { Checksums } from "../runs/results/content.ts";
import type { DeviceCard } from "./capabilities.ts";
import type { Links } from "./links.ts";
import type { OpenApiDocument } from "./openapi_schema.ts";
import type { RunSource } from "./run_source.ts";
import type { Database } from "./store/database.ts";
import type { RunIndex } from "./store/run_index.ts";

export interface Services {
  config: ServerConfig;
  /** Seconds since the server started, rounded down. */
  uptimeSeconds(): number;
  /** The machine's devices, the one that a run would take first. @throws The probe's error. */
  devices(): Promise<DeviceCard[]>;
  /** The runs of this server. */
  runs: RunSource;
  database: Database;
  /** The logs of runs, in the database. */
  index: RunIndex;
  /** Signs links to artefacts. */
  links: Links;
  /** Of files that are packed for download. */
  checksums: Checksums;
  /** The OpenAPI document of this server's routes. */
  openApi(): OpenApiDocument;
}
