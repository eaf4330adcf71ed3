/**
 * Writes api/openapi.json from the table of routes. With `--check` it writes nothing and exits with status 1 when the
 * committed document differs.
 */

import { fileURLToPath } from "node:url";
import { writeFileAtomic } from "../core/files.ts";
import { openApiText } from "../server/routing/openapi.ts";
import { ROUTES } from "../server/route_table.ts";

const DOCUMENT = fileURLToPath(new URL("../api/openapi.json", import.meta.url));

if (import.meta.main) {
  const text = openApiText(ROUTES);
  if (!Deno.args.includes("--check")) await writeFileAtomic(DOCUMENT, text);
  else if (await Deno.readTextFile(DOCUMENT).catch(() => "") !== text) {
    console.error(
      `${DOCUMENT} is not what server/ answers: run \`deno run -A scripts/generate_openapi.ts\``,
    );
    Deno.exit(1);
  }
}
