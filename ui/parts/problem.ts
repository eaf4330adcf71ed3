/** What a problem document says, without what it says twice. */

import type { Problem } from "../../api/types.ts";

/**
 * The detail of a problem; null when its list says the same: the server often makes a detail of the first entry, its
 * place and the number of the others.
 */
export function ownDetail({ detail, errors: [first] }: Pick<Problem, "detail" | "errors">): string | null {
  const said = detail.replace(/, and \d+ more$/, "");
  return first && said.endsWith(first.message) ? null : detail;
}
