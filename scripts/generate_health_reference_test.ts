import assert from "node:assert/strict";
import { describeKeys } from "../config/describe.ts";
import { HEALTH_RULES } from "../runs/results/health_rules.ts";
import { healthReference } from "./generate_health_reference.ts";

Deno.test("the page has a row for every rule, and its metrics and keys exist", async () => {
  const page = healthReference();
  const runs = await Deno.readTextFile(new URL("../docs/reference/runs.md", import.meta.url));
  const keys = new Set(describeKeys().map(({ key }) => key));
  // The contract's metrics of the judge, which this build does not have.
  const later = ["judge/degenerate_group_fraction", "judge/failed_fraction"];
  for (const { rule, metrics, advice } of HEALTH_RULES) {
    assert.ok(page.includes(`| \`${rule}\` |`), rule);
    for (const name of metrics) assert.ok(runs.includes(`\`${name}\``) || later.includes(name), name);
    for (const [key] of advice.matchAll(/\b(agent|training|model|evaluation|output|lora)\.[a-z_.]*[a-z]/g)) {
      assert.ok(keys.has(key), `${rule} names ${key}`);
    }
  }
});
