/** What may be written at a place of a TOML configuration. */

import type { ConfigKeys } from "../../client/config_schema.ts";

/** A proposal of the editor. */
export interface Proposal {
  label: string;
  /** What is written, where it is more than the label. */
  apply?: string;
  detail?: string;
  info?: string;
}

/** Proposals that replace the text from a place of the line to the cursor. */
export interface Proposals {
  /** The column, from 0. */
  from: number;
  options: readonly Proposal[];
}

/** Values of keys that the server offers, such as paths of models, each with what it is. */
export type OfferedValues = Readonly<Record<string, readonly { value: string; about: string }[]>>;

const HEADER = /^\s*\[{1,2}\s*([\w.-]+)\s*\]/;

/** The section of the last line; empty before the first header. */
function sectionOf(lines: readonly string[]): string {
  return lines.map((line) => HEADER.exec(line)?.[1]).findLast((name) => name !== undefined) ?? "";
}

function valuesOf(key: string, { keys }: ConfigKeys, offered: OfferedValues): Proposal[] {
  const known = keys.get(key);
  const quoted = (label: string, detail?: string) => ({
    label,
    apply: JSON.stringify(label),
    ...(detail !== undefined && { detail }),
  });
  if (known?.type === "boolean") return [{ label: "true" }, { label: "false" }];
  return [
    ...(known?.values ?? []).map((value) => quoted(value)),
    ...(offered[key] ?? []).map(({ value, about }) => quoted(value, about)),
  ];
}

/**
 * Proposes sections after a bracket, keys at the start of a line, and values after the sign.
 *
 * @param before The lines up to the cursor; the last one ends there.
 */
export function proposalsAt(
  before: readonly string[],
  known: ConfigKeys,
  offered: OfferedValues,
): Proposals | null {
  const line = before.at(-1) ?? "", section = sectionOf(before.slice(0, -1));
  const header = /^\s*\[{1,2}\s*([\w.-]*)$/.exec(line);
  if (header) {
    const options = [...known.sections].map(([label, info]) => ({ label, info }));
    return { from: line.length - header[1]!.length, options };
  }
  const value = /^\s*([\w.-]+)\s*=\s*("?[^"#]*)$/.exec(line), prefix = section === "" ? "" : `${section}.`;
  if (value) {
    const options = valuesOf(`${prefix}${value[1]}`, known, offered);
    return options.length > 0 ? { from: line.length - value[2]!.length, options } : null;
  }
  const name = /^\s*([\w-]*)$/.exec(line);
  if (!name) return null;
  const options = section === "" ? topLines(known) : keysIn(prefix, known);
  return { from: line.length - name[1]!.length, options };
}

/** What may stand before the first section. */
function topLines({ sections }: ConfigKeys): Proposal[] {
  const headers = [...sections].map(([name, info]) => ({ label: name, apply: `[${name}]\n`, info }));
  return [{ label: "name", apply: "name = ", info: "The run's name." }, ...headers];
}

/** The keys of a section itself; those of the tables in it have sections of their own. */
function keysIn(prefix: string, { keys }: ConfigKeys): Proposal[] {
  const own = [...keys.values()].filter(({ key }) =>
    key.startsWith(prefix) && !key.slice(prefix.length).includes(".")
  );
  return own.map(({ key, description, type, default: value }) => ({
    label: key.slice(prefix.length),
    apply: `${key.slice(prefix.length)} = `,
    detail: value === undefined ? type ?? "" : JSON.stringify(value),
    info: description,
  }));
}
