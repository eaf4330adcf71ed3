/** The routes of the API, and which of them this build answers. */

export type Method = "GET" | "POST" | "PATCH" | "DELETE";

/** A route with its path below `/v1`; `{name}` stands for one segment. */
export interface Route {
  method: Method;
  path: string;
}

const RUN = "/runs/{id}";
const GROUP = `${RUN}/trajectories/updates/{update}/groups/{group}`;

/** Paths with their methods. */
const PATHS: Readonly<Record<string, readonly Method[]>> = {
  "/health": ["GET"],
  "/capabilities": ["GET"],
  "/defaults": ["GET"],
  "/config-schema": ["GET"],
  "/openapi.json": ["GET"],
  "/plan": ["POST"],
  "/runs": ["GET", "POST"],
  [RUN]: ["GET", "PATCH", "DELETE"],
  [`${RUN}/pause`]: ["POST"],
  [`${RUN}/resume`]: ["POST"],
  [`${RUN}/cancel`]: ["POST"],
  [`${RUN}/checkpoints`]: ["GET", "POST"],
  [`${RUN}/evaluations`]: ["GET"],
  [`${RUN}/evaluations/{n}`]: ["GET"],
  [`${RUN}/health`]: ["GET"],
  [`${RUN}/scenarios`]: ["GET"],
  [`${RUN}/scenarios/{scenario}`]: ["GET"],
  [`${RUN}/evaluate`]: ["POST"],
  [`${RUN}/generate`]: ["POST"],
  [`${RUN}/events`]: ["GET"],
  [`${RUN}/metrics`]: ["GET"],
  [`${RUN}/trajectories`]: ["GET"],
  [`${RUN}/trajectories/search`]: ["GET"],
  [`${RUN}/trajectories/updates/{update}`]: ["GET"],
  [GROUP]: ["GET"],
  [`${GROUP}/members/{member}/tokens`]: ["GET"],
  [`${GROUP}/diff`]: ["GET"],
  [`${RUN}/artifacts`]: ["GET"],
  [`${RUN}/artifacts/{name}`]: ["GET"],
  [`${RUN}/artifacts/{name}/link`]: ["POST"],
  "/compare": ["GET"],
  "/metrics": ["GET"],
  "/events": ["GET"],
  "/datasets": ["GET", "POST"],
  "/datasets/{id}": ["GET", "DELETE"],
  "/datasets/{id}/rows/{n}/tokens": ["GET"],
  "/datasets/{id}/preview": ["GET"],
  "/datasets/{id}/tokenize": ["POST"],
  "/rewards": ["GET"],
  "/judges": ["GET"],
  "/mcp-servers": ["GET"],
  "/environments": ["GET"],
  "/model-files": ["GET"],
  "/preflight": ["POST"],
  "/models": ["GET"],
  "/chat/completions": ["POST"],
};

/** Every route of the contract. */
export const ROUTES: readonly Route[] = Object.entries(PATHS).flatMap(([path, methods]) =>
  methods.map((method) => ({ method, path }))
);

const PATTERNS = Object.keys(PATHS).map((path) => ({ path, segments: path.split("/") }));

/** The route pattern that a path below `/v1` belongs to, and its methods; null when there is none. */
export function findPath(path: string): { path: string; methods: readonly Method[] } | null {
  let segments: string[];
  try {
    segments = path.split("/").map(decodeURIComponent);
  } catch {
    // Malformed percent-encoding names nothing.
    return null;
  }
  const found = PATTERNS.find((pattern) =>
    pattern.segments.length === segments.length &&
    pattern.segments.every((part, i) => part.startsWith("{") ? segments[i] !== "" : part === segments[i])
  );
  return found ? { path: found.path, methods: PATHS[found.path]! } : null;
}

/** What `Allow` says: HEAD works wherever GET does. */
export function allowHeader(methods: readonly Method[]): string {
  const all = methods.includes("GET") ? ["GET", "HEAD", ...methods.filter((m) => m !== "GET")] : [...methods];
  return [...all, "OPTIONS"].join(", ");
}
