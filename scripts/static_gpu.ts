/**
 * Prints the grids of all products of decode, prefill and training steps; then asks a GPU's compiler about every GPU form
 * of every kernel, without a GPU. It compares both with committed ceilings. docs/bench/README.md says how to read it.
 *
 *   deno task static [--only <text>] [--json <file>] [--update]
 *
 * Exit status: 0; 1 above a ceiling, for a form without one, and, with REQUIRE_STATIC=1, where it cannot compile.
 */

import { parseArgs } from "node:util";
import { ServiceError } from "../core/errors.ts";
import {
  ceilingsOf,
  compareGrids,
  compareWithCeilings,
  type Comparison,
  instructionsPerFma,
  readCeilings,
  writeCeilings,
} from "./static_gpu/ceilings.ts";
import { formNames } from "./static_gpu/forms.ts";
import {
  allGrids,
  filling,
  MULTIPROCESSORS,
  type StepGrids,
  unfilledDispatches,
} from "./static_gpu/grids.ts";
import { type CompiledFamilies, compileFamilies, FAMILIES, missingCompiler } from "./static_gpu/radv.ts";

/** What one run checks and prints. */
export interface StaticOptions {
  /** Compiles, prints and compares only forms whose names contain this, and prints only products of these. */
  only: string;
  /** A file for all values as JSON; null: none. */
  json: string | null;
  /** Replaces the ceilings. */
  update: boolean;
  print(line: string): void;
}

/** Prints the table of the forms: a line for each form and family. */
function printForms(families: CompiledFamilies, { print }: StaticOptions): void {
  const columns = ["vgprs", "sgprs", "spills", "lds_bytes", "waves", "instructions", "latency"] as const;
  const heads = ["VGPR", "SGPR", "spills", "LDS", "waves", "instr.", "latency", "1/thrpt", "i./FMA"];
  for (const family of FAMILIES) {
    const { compiler, forms } = families[family];
    print(`${family}, ${compiler}`.padEnd(68) + heads.map((head) => head.padStart(8)).join(""));
    for (const [name, found] of Object.entries(forms)) {
      const values = [
        ...columns.map((column) => String(found[column])),
        String(found.inverse_throughput),
        instructionsPerFma(found)?.toFixed(3) ?? "",
      ];
      print(name.padEnd(68) + values.map((value) => value.padStart(8)).join(""));
    }
  }
}

/** Prints the products of all steps, those with the fewest workgroups first. */
function printGrids(steps: readonly StepGrids[], { only, print }: StaticOptions): void {
  for (const step of steps) {
    const { products } = step,
      share = products.reduce(
        (sum, { workgroups, share }) => workgroups < MULTIPROCESSORS ? sum + share : sum,
        0,
      );
    const all = products.reduce((sum, { count }) => sum + count, 0);
    print(
      `${step.step}: ${
        unfilledDispatches(step)
      } of ${all} dispatches of products leave multiprocessors without work; ` +
        `they have ${percent(share)} of the multiply-adds with matrices`,
    );
    for (const { form, shape, grid, workgroups, count, share } of products) {
      if (!form.includes(only)) continue;
      const columns = [form.padEnd(50), shape.padEnd(34), grid.join(" × ").padEnd(16)];
      print(`  ${columns.join("")}${filling(workgroups).padEnd(20)}${count} times, ${percent(share)}`);
    }
  }
}

const percent = (share: number) => `${(100 * share).toFixed(1)} %`;

/** Prints, compiles and compares. @returns The exit status. */
export async function runStatic(options: StaticOptions): Promise<number> {
  const { only, update, json, print } = options, ceilings = await readCeilings();
  const steps = await allGrids(formNames());
  printGrids(steps, options);
  const grids = compareGrids(steps, ceilings);
  const missing = await missingCompiler();
  if (missing !== null) return Math.max(report(grids, options), skip(print, missing));
  const families = await compileFamilies(only);
  printForms(families, options);
  if (json) await Deno.writeTextFile(json, JSON.stringify({ steps, families }, null, 1) + "\n");
  const found = ceilingsOf(families, steps);
  if (update && (only === "" || ceilings.compiler === found.compiler)) {
    const forms = only === "" ? found.forms : { ...ceilings.forms, ...found.forms };
    print(`${await writeCeilings({ ...found, forms })}: ${Object.keys(found.forms).length} forms`);
    return 0;
  }
  if (ceilings.compiler !== found.compiler) {
    const reason = `the ceilings are those of ${ceilings.compiler}, and this is ${found.compiler}`;
    return Math.max(report(grids, options), skip(print, reason));
  }
  const forms = compareWithCeilings(families, ceilings, only);
  return report({
    problems: [...grids.problems, ...forms.problems],
    gains: [...grids.gains, ...forms.gains],
  }, options);
}

/** Prints a comparison. @returns The exit status. */
function report({ problems, gains }: Comparison, { print }: StaticOptions): number {
  if (gains.length > 0) {
    print(`forms and steps below their ceilings: ${gains.length}; --update lowers these`);
  }
  for (const problem of problems) print(`FAILED ${problem}`);
  if (problems.length === 0) return 0;
  print(`${problems.length} problems; --update accepts them, for the commit to show`);
  return 1;
}

/** Says why nothing is compared. */
function skip(print: StaticOptions["print"], reason: string): number {
  const required = Deno.env.get("REQUIRE_STATIC") === "1";
  print(`${required ? "FAILED" : "skipped"}: cannot compare the GPU forms with their ceilings: ${reason}`);
  return required ? 1 : 0;
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      only: { type: "string", default: "" },
      json: { type: "string" },
      update: { type: "boolean", default: false },
    },
  });
  try {
    Deno.exit(await runStatic({ ...values, json: values.json ?? null, print: console.log }));
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    console.error(error.message);
    Deno.exit(1);
  }
}
