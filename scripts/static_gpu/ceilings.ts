/** Ceilings for what a compiler says of the GPU forms: a change that makes one worse is seen, and is a decision. */

import { fileURLToPath } from "node:url";
import { type StepGrids, unfilledDispatches } from "./grids.ts";
import { type CompiledFamilies, FAMILIES, type Family } from "./radv.ts";
import type { Statistics } from "./statistics.ts";

const PATH = fileURLToPath(new URL("ceilings.json", import.meta.url));

/** The stored values of a form, in this order; the last four only for a form with a tile. */
const FIELDS = [
  "vgprs",
  "spills",
  "lds_bytes",
  "instructions",
  "latency",
  "inverse_throughput",
  "tile_instructions",
  "tile_fmas",
  "tile_around",
  "tile_around_fmas",
] as const;

/** The fields that may not rise. What lies in and around a tile counts by {@link instructionsPerFma}. */
const HELD = FIELDS.slice(0, 6) as readonly Exclude<typeof FIELDS[number], `tile_${string}`>[];

/** The file `ceilings.json`. */
export interface Ceilings {
  /** The compiler that the values are of; others give other values. */
  compiler: string;
  fields: readonly string[];
  /** By form and family, in the order of `fields`. */
  forms: Record<string, Partial<Record<Family, number[]>>>;
  /** By step: its dispatches of products that leave multiprocessors without work. */
  unfilled: Record<string, number>;
}

/** The statistics that the file has. */
export type StoredStatistics = Pick<Statistics, typeof HELD[number] | "tile">;

/** The stored ceilings. */
export async function readCeilings(): Promise<Ceilings> {
  return JSON.parse(await Deno.readTextFile(PATH));
}

/** Instructions for each fused multiply-add of the innermost tile; null without a tile. */
export function instructionsPerFma({ tile }: Pick<Statistics, "tile">): number | null {
  return tile && tile.instructions / tile.fmas;
}

/** The compiled forms and the steps' grids as ceilings. */
export function ceilingsOf(families: CompiledFamilies, steps: readonly StepGrids[]): Ceilings {
  const forms: Ceilings["forms"] = {};
  for (const family of FAMILIES) {
    for (const [name, statistics] of Object.entries(families[family].forms)) {
      const { tile } = statistics;
      (forms[name] ??= {})[family] = [
        ...HELD.map((field) => statistics[field]),
        ...tile ? [tile.instructions, tile.fmas, tile.around, tile.around_fmas] : [],
      ];
    }
  }
  const unfilled = Object.fromEntries(steps.map((step) => [step.step, unfilledDispatches(step)]));
  return { compiler: families[FAMILIES[0]].compiler, fields: FIELDS, forms, unfilled };
}

/** Replaces the stored ceilings, and returns the path of the file. */
export async function writeCeilings(ceilings: Ceilings): Promise<string> {
  const line = (values: number[]) => `[${values.join(", ")}]`;
  const forms = Object.entries(ceilings.forms).map(([name, families]) => {
    const lines = Object.entries(families).map(([family, values]) =>
      `      ${JSON.stringify(family)}: ${line(values)}`
    );
    return `    ${JSON.stringify(name)}: {\n${lines.join(",\n")}\n    }`;
  });
  const head = `  "compiler": ${JSON.stringify(ceilings.compiler)},\n  "fields": [\n${
    ceilings.fields.map((field) => `    ${JSON.stringify(field)}`).join(",\n")
  }\n  ]`;
  const unfilled = Object.entries(ceilings.unfilled).map(([step, count]) =>
    `    ${JSON.stringify(step)}: ${count}`
  );
  const body = `  "unfilled": {\n${unfilled.join(",\n")}\n  },\n  "forms": {\n${forms.join(",\n")}\n  }`;
  await Deno.writeTextFile(PATH, `{\n${head},\n${body}\n}\n`);
  return PATH;
}

/** The stored statistics of a form; null for a form without a ceiling. */
export function storedStatistics(
  { forms }: Ceilings,
  name: string,
  family: Family,
): StoredStatistics | null {
  const values = forms[name]?.[family];
  if (!values) return null;
  const [instructions, fmas, around, around_fmas] = values.slice(HELD.length);
  return {
    ...Object.fromEntries(HELD.map((field, i) => [field, values[i]!])) as Record<typeof HELD[number], number>,
    tile: instructions === undefined
      ? null
      : { instructions, fmas: fmas!, around: around!, around_fmas: around_fmas! },
  };
}

/** The comparison of compiled forms with their ceilings. */
export interface Comparison {
  /** A line for each form with values above its ceiling, form without a ceiling, and ceiling without a form. */
  problems: string[];
  /** A line for each form with values below its ceiling. */
  gains: string[];
}

/** Compares the grids of steps with their ceilings. */
export function compareGrids(
  steps: readonly StepGrids[],
  { unfilled }: Pick<Ceilings, "unfilled">,
): Comparison {
  const problems: string[] = [], gains: string[] = [];
  for (const step of steps) {
    const count = unfilledDispatches(step), most = unfilled[step.step];
    if (most === undefined) problems.push(`${step.step} has no ceiling`);
    else {
      const line = `${step.step}: ${count} dispatches of products leave multiprocessors without work`;
      if (count > most) problems.push(`${line}, above ${most}`);
      if (count < most) gains.push(`${line}, below ${most}`);
    }
  }
  const names = steps.map(({ step }) => step);
  for (const step of Object.keys(unfilled)) {
    if (!names.includes(step)) problems.push(`there is a ceiling for ${step}, which is no step`);
  }
  return { problems, gains };
}

/** Compares the forms whose names contain the text with ceilings of the same compiler. */
export function compareWithCeilings(families: CompiledFamilies, ceilings: Ceilings, only = ""): Comparison {
  const problems: string[] = [], gains: string[] = [];
  for (const family of FAMILIES) {
    const { forms } = families[family];
    for (const [name, found] of Object.entries(forms)) {
      const ceiling = storedStatistics(ceilings, name, family);
      if (!ceiling) {
        problems.push(`${family}: ${name} has no ceiling`);
        continue;
      }
      const { above, below } = compareForm(found, ceiling);
      if (above.length > 0) problems.push(`${family}: ${name}: ${above.join(", ")}`);
      if (below.length > 0) gains.push(`${family}: ${name}: ${below.join(", ")}`);
    }
    for (const name of Object.keys(ceilings.forms)) {
      if (!forms[name] && name.includes(only)) {
        problems.push(`${family}: there is a ceiling for ${name}, which is no form`);
      }
    }
  }
  return { problems, gains };
}

function compareForm(found: StoredStatistics, ceiling: StoredStatistics) {
  const above: string[] = [], below: string[] = [];
  const compare = (field: string, value: number, most: number) => {
    if (value > most) above.push(`${field} ${value} is above ${most}`);
    if (value < most) below.push(`${field} ${value} is below ${most}`);
  };
  for (const field of HELD) compare(field, found[field], ceiling[field]);
  const ratio = instructionsPerFma(found), most = instructionsPerFma(ceiling);
  if (ratio !== null && most !== null) compare("instructions per FMA", round(ratio), round(most));
  if (ratio === null && most !== null) above.push("it has no tile any more");
  return { above, below };
}

const round = (ratio: number) => Number(ratio.toFixed(4));
