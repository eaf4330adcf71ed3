/** Files of a run. */

import { notBuilt, type Route } from "../route.ts";

export const ARTIFACT_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/artifacts",
    operation: "list_artifacts",
    summary: "The artefacts of a run.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/runs/{id}/artifacts/{name}",
    operation: "download_artifact",
    summary: "The bytes of an artefact.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/runs/{id}/artifacts/{name}/link",
    operation: "link_artifact",
    summary: "A signed link to one artefact, valid for 60 seconds.",
  }),
];
