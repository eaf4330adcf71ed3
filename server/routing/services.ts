/** The services for route handlers. */

import type { ServerConfig } from "../../config/server/schema.ts";
import type { Clock } from "../../core/clock.ts";
import type { ObservedRuns } from "../../runs/views/observed_runs.ts";
import type { DatasetStore } from "../../runs/datasets/dataset_store.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";
import type { Serving } from "../../runs/serving/serving.ts";
import type { PlanTarget } from "../../runs/plan/plan.ts";
import type { ModelFiles } from "../sources/model_files.ts";
import type { Checksums } from "../../runs/results/content.ts";
import type { MeasuredTexts } from "../../runs/results/changed_lines.ts";
import type { Links } from "../access/links.ts";
import type { Redactor } from "../http/redact.ts";
import type { OpenApiDocument } from "./openapi_schema.ts";
import type { RunSource } from "../sources/run_source.ts";
import type { Database } from "../store/database.ts";
import type { FleetEvents } from "../store/fleet_events.ts";
import type { RunIndex } from "../store/run_index.ts";
import type { Family } from "../telemetry/exposition.ts";

/** A device, with the facts that plans need. */
export type ProbedDevice = PlanTarget["card"]["facts"] & Pick<PlanTarget["card"], "subgroup_size">;

/** Whether something is available on this machine, and else the reason. */
export interface Availability {
  available: boolean;
  reason: string | null;
}

export interface Services {
  config: ServerConfig;
  clock: Clock;
  /** When the server started, in milliseconds since 1970. */
  started_ms: number;
  /** Seconds since the server started, rounded down. */
  uptimeSeconds(): number;
  /** The machine's devices. The first one is the default of a run. @throws The probe's error. */
  devices(): Promise<ProbedDevice[]>;
  /** Whether containers can start here; null when nobody asks the machine. */
  containers(): Promise<Availability | null>;
  /** The device for which runs are planned on a machine without one. */
  assumed_device: ProbedDevice | null;
  /** The runs of this server. */
  runs: RunSource;
  /** The trajectories in observe directories. */
  trajectories: ObservedRuns;
  /** Creates and commands runs; null in view mode. */
  fleet: Fleet | null;
  /** Answers chats; null when serving is off. */
  serving: Serving | null;
  /** Whether the web interface is served. */
  has_interface: boolean;
  database: Database;
  /** The events of all runs. */
  fleet_events: FleetEvents;
  /** The logs of runs, in the database. */
  index: RunIndex;
  /** Signs links to artefacts. */
  links: Links;
  /** The checksums of files that are packed for download. */
  checksums: Checksums;
  /** The sizes of files from which the machine's paths are removed. */
  measured_texts: MeasuredTexts;
  /** The OpenAPI document of this server's routes. */
  openApi(): OpenApiDocument;
  /** Runs long or hostile work outside of this thread. */
  jobs: JobRunner;
  /** The server's own metrics. */
  telemetry: readonly (() => Family[])[];
  /** Removes the machine's paths from texts; null when the operator allows that they are shown. */
  newRedactor(): Redactor | null;
  /** The number of requests of a route, such as `/v1/events`, that are being answered. */
  openRequests(route: string): number;
  datasets: DatasetStore;
  /** Whether a live run uses a dataset. */
  isDatasetInUse(id: string): Promise<boolean>;
  model_files: ModelFiles;
}
