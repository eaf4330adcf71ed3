/** `svc convert`: writes a published dataset as rows for this program. */

import { type Command, Option } from "commander";
import { ServiceError } from "../core/errors.ts";
import { isPresent, writeFileAtomic } from "../core/files.ts";
import { convertDataset, DATASET_SOURCES } from "../data/sources/registry.ts";
import { ROW_KINDS, type RowKind } from "../data/sources/source.ts";
import type { CliContext } from "./context.ts";

interface ConvertArguments {
  out: string;
  as?: RowKind;
  split?: string;
  force?: true;
}

/** Whether two paths lead to one file that exists. */
async function isSameFile(a: string, b: string): Promise<boolean> {
  const [first, second] = await Promise.all([a, b].map((path) => Deno.realPath(path).catch(() => null)));
  return first !== null && first === second;
}

/** Adds the command. */
export function addConvertCommand(program: Command, { terminal }: CliContext): void {
  const names = DATASET_SOURCES.map(({ name }) => name).join(", ");
  program.command("convert").description(`write a published dataset (${names}) as rows for svc`)
    .argument("<file>", "file as it was published (.json, .jsonl)")
    .requiredOption("--out <file>", "file to write (JSONL)")
    .addOption(
      new Option("--as <kind>", "what the rows are (default: what the dataset gives first)").choices(
        ROW_KINDS,
      ),
    )
    .option("--split <name>", "part of the dataset (default: its first)")
    .option("--force", "replace an existing file")
    .action(async (file: string, { out, as: kind, split, force }: ConvertArguments) => {
      if (!force && await isPresent(out)) {
        throw new ServiceError(
          "already_exists",
          `Cannot write ${out}: it exists; name another file, or replace it with --force`,
          { path: out },
        );
      }
      if (await isSameFile(file, out)) {
        const reason = "it is the file that is read; name another file";
        throw new ServiceError("config_invalid", `Cannot write ${out}: ${reason}`, { path: out });
      }
      const converted = await convertDataset(file, { kind, split });
      await writeFileAtomic(out, converted.rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
      const part = converted.split === null ? "" : `, part ${converted.split}`;
      terminal.line(
        `${converted.rows.length} rows (${converted.kind}) of ${converted.source}${part}: ${out}`,
      );
    });
}
