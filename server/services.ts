/** What the handlers of routes work with. */

import type { ServerConfig } from "../config/server.ts";
import type { DeviceCard } from "./capabilities.ts";
import type { OpenApiDocument } from "./openapi_schema.ts";

export interface Services {
  config: ServerConfig;
  /** Whole seconds since the server began. */
  uptimeSeconds(): number;
  /** The machine's devices, the one that a run would take first. @throws What the probe failed with. */
  devices(): Promise<DeviceCard[]>;
  /** The OpenAPI document of the routes that this server answers. */
  openApi(): OpenApiDocument;
}
