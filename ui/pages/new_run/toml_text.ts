/** A plan's configuration as a text for the editor. */

import { stringify } from "smol-toml";
import type { Plan } from "../../../api/types.ts";

type Table = Readonly<Record<string, unknown>>;

/** Warnings that name a value which the server chose for this request; a configuration would not get it by itself. */
const CHOSEN: ReadonlySet<string> = new Set(["lever_applied", "context_truncated"]);

const isTable = (value: unknown): value is Table =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isTables = (value: unknown): value is Table[] =>
  Array.isArray(value) && value.length > 0 && value.every(isTable);

/** A part of a header, in quotes where it is more than a word. */
const keyText = (part: string) => /^[\w-]+$/.test(part) ? part : JSON.stringify(part);

/**
 * Writes a plan's configuration. What its author set, and what the server chose to make the run possible, are lines. The
 * rest, which the server would choose again, are comments with their source: they are there to be changed.
 *
 * @param name The run's name, which stands before the sections.
 */
export function tomlOf(
  { config, sources, warnings }: Pick<Plan, "config" | "sources" | "warnings">,
  name: string,
): string {
  const chosen = new Set(warnings.flatMap(({ code, field }) => CHOSEN.has(code) ? field ?? [] : []));
  const lines: string[] = name === "" ? [] : [stringify({ name })];
  const isDerived = (key: string) => (sources[key] ?? "override") !== "override" && !chosen.has(key);
  const line = (key: string, name: string, value: unknown): string => {
    const text = stringify({ [name]: value }).trimEnd();
    return isDerived(key) ? `# ${text}  # ${sources[key]}` : text;
  };
  const write = (table: Table, path: readonly string[]) => {
    const keyOf = (name: string) => [...path, name].join(".");
    // A table without keys is a section all the same, unless it is a default.
    const entries = Object.entries(table).filter(([name, value]) =>
      !(isTable(value) && isDerived(keyOf(name)))
    );
    const own = entries.filter(([, value]) => !isTable(value) && !isTables(value));
    if (path.length > 0 && (own.length > 0 || entries.length === 0)) {
      lines.push(`[${path.map(keyText).join(".")}]`);
    }
    for (const [name, value] of own) lines.push(line(keyOf(name), name, value));
    if (own.length > 0 || entries.length === 0) lines.push("");
    for (const [name, value] of entries) {
      if (isTable(value)) write(value, [...path, name]);
      if (isTables(value)) {
        const nested = path.reduceRight<Table>((inner, part) => ({ [part]: inner }), { [name]: value });
        lines.push(stringify(nested));
      }
    }
  };
  write(config, []);
  return `${lines.join("\n").trimEnd()}\n`;
}
