/**
 * Asks a GPU's compiler about every GPU form of every kernel, without a GPU, and compares the answers with committed
 * ceilings; then prints the grids of all products. docs/bench/README.md says how to read it.
 *
 *   deno task static [--only <text>] [--json <file>] [--update]
 *
 * Exit status: 0; 1 above a ceiling, for a form without one, and, with REQUIRE_STATIC=1, where it cannot compile; 2 for
 * wrong arguments.
 */

import { parseArgs } from "node:util";
import {
  ceilingsOf,
  compareWithCeilings,
  instructionsPerFma,
  readCeilings,
  writeCeilings,
} from "./static_gpu/ceilings.ts";
import { type CompiledFamilies, compileFamilies, FAMILIES, missingCompiler } from "./static_gpu/radv.ts";

/** What one run checks and prints. */
export interface StaticOptions {
  /** Prints only forms and products whose names contain this. */
  only: string;
  /** A file for all values as JSON; null: none. */
  json: string | null;
  /** Replaces the ceilings. */
  update: boolean;
  print(line: string): void;
}

/** Prints the table of the forms: a line for each form and family. */
function printForms(families: CompiledFamilies, { only, print }: StaticOptions): void {
  const columns = ["vgprs", "sgprs", "spills", "lds_bytes", "waves", "instructions", "latency"] as const;
  const heads = ["VGPR", "SGPR", "spills", "LDS", "waves", "instr.", "latency", "1/thrpt", "i./FMA"];
  for (const family of FAMILIES) {
    const { compiler, forms } = families[family];
    print(`${family}, ${compiler}`.padEnd(68) + heads.map((head) => head.padStart(8)).join(""));
    for (const [name, found] of Object.entries(forms)) {
      if (!name.includes(only)) continue;
      const values = [
        ...columns.map((column) => String(found[column])),
        String(found.inverse_throughput),
        instructionsPerFma(found)?.toFixed(3) ?? "",
      ];
      print(name.padEnd(68) + values.map((value) => value.padStart(8)).join(""));
    }
  }
}

/** Compiles, prints and compares. @returns The exit status. */
export async function runStatic(options: StaticOptions): Promise<number> {
  const { update, json, print } = options;
  const missing = await missingCompiler();
  if (missing !== null) return skip(print, missing);
  const families = await compileFamilies();
  printForms(families, options);
  if (json) await Deno.writeTextFile(json, JSON.stringify({ families }, null, 1) + "\n");
  const found = ceilingsOf(families);
  if (update) {
    print(`${await writeCeilings(found)}: ${Object.keys(found.forms).length} forms`);
    return 0;
  }
  const ceilings = await readCeilings();
  if (ceilings.compiler !== found.compiler) {
    return skip(print, `the ceilings are those of ${ceilings.compiler}, and this is ${found.compiler}`);
  }
  const { problems, gains } = compareWithCeilings(families, ceilings);
  if (gains.length > 0) print(`${gains.length} forms are below their ceilings: --update lowers these`);
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
  Deno.exit(await runStatic({ ...values, json: values.json ?? null, print: console.log }));
}
