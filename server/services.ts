/** The services for route handlers. */

import type { ServerConfig } from "../config/server.ts";
import type { DatasetStore } from "../runs/datasets/dataset_store.ts";
import type { JobRunner } from "../runs/jobs/job_table.ts";
import type { DeviceCard } from "./capabilities.ts";
import type { ModelFiles } from "./model_files.ts";
import type { OpenApiDocument } from "./openapi_schema.ts";
import type { RunSource } from "./run_source.ts";

export interface Services {
  config: ServerConfig;
  /** Seconds since the server started, rounded down. */
  uptimeSeconds(): number;
  /** The machine's devices, the one that a run would take first. @throws The probe's error. */
  devices(): Promise<DeviceCard[]>;
  /** The runs of this server. */
  runs: RunSource;
  /** The OpenAPI document of this server's routes. */
  openApi(): OpenApiDocument;
  /** Runs long or hostile work outside of this thread. */
  jobs: JobRunner;
  datasets: DatasetStore;
  /** Whether a live run uses a dataset. */
  isDatasetInUse(id: string): Promise<boolean>;
  modelFiles: ModelFiles;
}
