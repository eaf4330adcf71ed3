/** The permissions of the process that plans a request. */

import { listingPermissions } from "../../agent/configured.ts";
import { checkTree } from "../../config/check/check_tree.ts";
import { parseToml } from "../../config/text/toml_tree.ts";
import type { PermissionNeeds } from "../../core/permissions.ts";
import type { PlanJobRequest } from "./plan_request.ts";

/** The files of the request, and what listing the tools of its world needs. */
export function planNeeds({ text, files, fork, files_only }: PlanJobRequest): PermissionNeeds[] {
  const read = [...files.map(({ path }) => path), ...(fork ? [fork.checkpoint] : [])];
  if (files_only) return [{ read }];
  const toml = parseToml(text);
  const config = "message" in toml ? null : checkTree(toml, { is_partial: true }).config;
  return [{ read }, ...(config ? listingPermissions(config) : [])];
}
