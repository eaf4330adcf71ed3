/**
 * Writes docs/reference/health.md from the rules of health. With `--check` it writes nothing and exits with status 1 when
 * the committed page differs.
 */

import { fileURLToPath } from "node:url";
import { writeFileAtomic } from "../core/files.ts";
import { HEALTH_RULES, type HealthRule } from "../runs/results/health_rules.ts";

const PAGE = fileURLToPath(new URL("../docs/reference/health.md", import.meta.url));

const INTRODUCTION = `# The health of a run

<!-- Written by scripts/generate_health_reference.ts from runs/results/health_rules.ts: change a rule there, then run it again. -->

\`GET /v1/runs/{id}/health\` evaluates these rules on the metrics of a run. Each has a level (\`ok\`, or the one of the table when
it is broken), the measured value, its threshold, the update since which it is broken, and advice. A rule whose metrics the
run does not have, or not for enough updates, is left out. At its threshold a rule holds.

The thresholds are rules of thumb: a broken one is a reason to look, not a proof. Of a long run the first 50 updates, the
last 1,000 and all evaluations are looked at. An update with several optimiser steps counts with their mean.
`;

/** What a rule measures, in words. */
function measureText({ metrics, measure, window, absolute }: HealthRule): string {
  const what = metrics.map((name) => `\`${name}\``).join(" + ");
  const last = window === 1 ? "the newest value" : `mean of the last ${window} updates`;
  switch (measure) {
    case "mean":
      return `${what}: ${last}${absolute ? ", without its sign" : ""}`;
    case "share_of_start":
      return `${what}: ${last}, divided by that of the first ${window}; from update ${2 * window} on`;
    case "share_of_median":
      return `${what}: the newest value, divided by the median of up to ${window} before it, at least 5`;
    case "fall_from_best":
      return `${what}: the best so far minus the newest`;
    case "rise_from_best":
      return `${what}: the newest divided by the best so far, minus 1`;
  }
}

function row(rule: HealthRule): string {
  const cells = [
    `\`${rule.rule}\``,
    measureText(rule),
    `${rule.breaks} ${rule.threshold}`,
    rule.level,
    rule.advice,
  ];
  return `| ${cells.join(" | ")} |`;
}

/** The page's text. */
export function healthReference(): string {
  return `${INTRODUCTION}
| Rule | What it measures | Broken | Level | Advice |
|---|---|---|---|---|
${HEALTH_RULES.map(row).join("\n")}
`;
}

if (import.meta.main) {
  const text = healthReference();
  if (!Deno.args.includes("--check")) await writeFileAtomic(PAGE, text);
  else if (await Deno.readTextFile(PAGE).catch(() => "") !== text) {
    console.error(
      `${PAGE} is not what runs/results/ says: run \`deno run -A scripts/generate_health_reference.ts\``,
    );
    Deno.exit(1);
  }
}
