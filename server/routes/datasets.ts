/** Uploaded datasets. */

import { notBuilt, type Route } from "../route.ts";

export const DATASET_ROUTES: readonly Route[] = [
  notBuilt({
    method: "GET",
    path: "/v1/datasets",
    operation: "list_datasets",
    summary: "Datasets, newest first.",
  }),
  notBuilt({ method: "POST", path: "/v1/datasets", operation: "create_dataset", summary: "Uploads NDJSON." }),
  notBuilt({
    method: "GET",
    path: "/v1/datasets/{id}",
    operation: "get_dataset",
    summary: "The card of a dataset.",
  }),
  notBuilt({
    method: "DELETE",
    path: "/v1/datasets/{id}",
    operation: "delete_dataset",
    summary: "Deletes a dataset that no live run uses.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/datasets/{id}/rows/{n}/tokens",
    operation: "list_row_tokens",
    summary: "The tokens of a row as they would be trained.",
  }),
  notBuilt({
    method: "GET",
    path: "/v1/datasets/{id}/preview",
    operation: "preview_dataset",
    summary: "The first rows as they are read.",
  }),
  notBuilt({
    method: "POST",
    path: "/v1/datasets/{id}/tokenize",
    operation: "tokenize_dataset",
    summary: "How long the rows of a dataset are in tokens.",
  }),
];
