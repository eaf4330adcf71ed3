/**
 * Writes docs/reference/api.md from the table of routes. With `--check` it writes nothing and exits with status 1 when
 * the committed page differs.
 */

import { fileURLToPath } from "node:url";
import { writeFileAtomic } from "../core/files.ts";
import {
  ALL_PROBLEM_TYPES,
  CODE_HELP,
  PROBLEM_TYPES,
  type ProblemType,
} from "../server/http/problem_types.ts";
import type { Route } from "../server/routing/route.ts";
import { problemsOf } from "../server/routing/route_problems.ts";
import { ROUTES } from "../server/route_table.ts";

const PAGE = fileURLToPath(new URL("../docs/reference/api.md", import.meta.url));

const INTRODUCTION = `# The HTTP API

<!-- Written by scripts/generate_api_reference.ts from server/route_table.ts: change a route's entry, then run it again. -->

\`GET /v1/openapi.json\` describes all routes with their parameters and bodies, as OpenAPI 3.1; \`svc-server openapi\` prints
the same, and \`api/openapi.json\` is a stored copy. \`api/types.ts\` has its types for TypeScript.
Each answer that is a problem lists its types and codes under \`x-problems\`. A stream of events is text; the
\`contentSchema\` of its schema has the name of each event and the schema of its \`data\`.

## Every request

- Paths are matched as they are sent. The values in a path are decoded, its fixed words are not: \`/v1/he%61lth\` is not a
  route. A value may not be empty, \`.\` or \`..\`, also when escaped. Malformed percent-encoding is \`not-found\`.
- \`HEAD\` works wherever \`GET\` does; \`OPTIONS\` answers 204 with \`Allow\`.
- An unknown query parameter is refused with \`unknown_field\` at \`/query/<name>\`, a repeated one with
  \`invalid_value\`. \`exp\` and \`sig\`, which belong to signed links, are ignored on all other routes.
- A JSON body may be labelled \`application/json\` or any \`+json\` type, with \`charset=utf-8\` or without, and may start with
  a byte order mark. Duplicate keys, lone surrogates and numbers that would lose digits are \`invalid_value\`. It
  nests up to 64 levels, has at most 10,000 values, and names of at most 1,024 characters; TOML has at most 131,072
  characters. More of these is \`invalid_value\`; only a body above \`max_body_bytes\` is \`payload-too-large\`.
- If a \`POST\` or \`PATCH\` route takes no body, a body must still be labelled as JSON; it is not read.
- A cursor belongs to its list: an empty one, or one of another list, is \`invalid_value\` at \`/query/cursor\`.
- An \`Idempotency-Key\` is compared right after the request's form: a repeated request gets the first one's answer even
  if its files, ids or the device are gone, and with another body it is \`conflict\`.
- A request other than \`GET\`, \`HEAD\` and \`OPTIONS\` that a browser marks with \`Sec-Fetch-Site: cross-site\` is refused
  like one with a foreign Origin, unless its Origin is listed in \`allowed_hosts\`.
- A list of errors has up to 200 entries. A text of a problem, pointers among them, has up to 2,000 characters, and a
  \`…\` where there were more; a \`detail\` has up to 4,000.
- A path must be absolute and, after its links are resolved, a regular file in \`path_roots\`. Any other place,
  relative paths and \`~\` among them, is \`forbidden_path\` whether something is there or not; what is in a root and no
  regular file is \`path_not_found\`. A path with NUL or of more than 4,096 bytes is \`invalid_value\`. Where a path to
  data is taken, the id of a dataset is too. A run keeps the resolved paths, those in \`data_dir\` relative to it: if a
  link takes the place of such a file or of a folder above it later, or the file is gone, the run does not start. A
  queued run is \`interrupted\` then, \`resume\` is \`conflict\` until the file is back, and with a link or no file in the place
  of the model's file the adapters are not served.
- With \`redact_error_paths\` every answer has \`<path>/<last part>\` in place of a path of the machine: problems, warnings,
  configurations, events, the list of model files, and the artefacts \`config\`, \`events\`, \`log\` and \`trajectories\`.
  The log has the full paths of an answer as \`paths\` under its \`trace_id\`, except those of artefacts, which the
  run's folder has. In the conversations of trajectories, and in what tools and graders printed, the folders of this
  machine that a run can come upon are replaced, by \`<path>\`: \`data_dir\`, \`path_roots\`, those of the files that the
  catalogue names, of the program, of its user and of temporary files. Single tokens stay, because a path is cut
  anywhere there, and so does what clients wrote or are answered: ids, names, notes, rows, and the messages of
  generate and of chats. The size of an artefact without paths is known when it was read once: the first list of a
  run's artefacts, or the first download, takes as long as reading them; other requests are answered meanwhile.
  A configuration that is read from such a server cannot be posted back, and clients have to know the paths of models.
- The search for model files follows folders up to 8 levels below a root, and ends at 100,000 entries, 10,000 files or
  15 seconds. \`GET /v1/model-files\` has the header \`X-Search-Complete\`: \`false\` when files are missing because of a
  limit. The log has a warning then.
- Datasets and model files are read in processes with limits of time and memory. A file that exceeds one is
  \`invalid_value\` at the field that names it.
- docs/reference/results.md has more about metrics, evaluations, comparisons and artefacts.
- docs/reference/requests.md has more about evaluate, generate, calibrate and the device.
- Outside \`/v1\` there is no token, and refusals are plain text.
`;

function problemText(entry: Route): string {
  return Object.entries(problemsOf(entry)).map(([type, codes]) =>
    codes.length > 0 ? `${type} (${codes.join(", ")})` : type
  ).join("; ");
}

function routeRow(entry: Route): string {
  const { summary } = entry;
  return `| ${entry.method} | \`${entry.path}\` | ${summary} | ${problemText(entry) || "–"} |`;
}

function problemRow(type: ProblemType): string {
  const { status, title, when, action, codes } = PROBLEM_TYPES[type];
  const named = codes.map((code) => `\`${code}\``).join(", ") || "–";
  return `| \`${type}\` | ${status} | ${title}. ${when} | ${action} | ${named} |`;
}

/** The page's text. */
export function apiReference(): string {
  return `${INTRODUCTION}
## Routes

| Method | Path | What it answers | Problems (codes) |
|---|---|---|---|
${ROUTES.map(routeRow).join("\n")}

## Problems

\`type\` is \`problem_type_base\`, a slash and one of these; the server's page \`/problems/<type>\` says the same as this
table. A type without codes has an empty \`errors\`.

| Type | Status | When | What to do | Codes |
|---|---|---|---|---|
${ALL_PROBLEM_TYPES.map(problemRow).join("\n")}

| Code | Meaning |
|---|---|
${Object.entries(CODE_HELP).map(([code, meaning]) => `| \`${code}\` | ${meaning} |`).join("\n")}
`;
}

if (import.meta.main) {
  const text = apiReference();
  if (!Deno.args.includes("--check")) await writeFileAtomic(PAGE, text);
  else if (await Deno.readTextFile(PAGE).catch(() => "") !== text) {
    console.error(`${PAGE} is not what server/ says: run \`deno run -A scripts/generate_api_reference.ts\``);
    Deno.exit(1);
  }
}
