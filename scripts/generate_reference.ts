/**
 * Writes docs/reference/configuration.md from the schema of the run configuration. With `--check` it writes nothing and
 * exits with status 1 when the committed page differs.
 */

import { fileURLToPath } from "node:url";
import { type ConfigKey, type ConfigSection, describeConfig } from "../config/describe.ts";
import { isNotBuilt, notBuiltEntries } from "../config/check/not_built.ts";
import { writeFileAtomic } from "../core/files.ts";

const PAGE = fileURLToPath(new URL("../docs/reference/configuration.md", import.meta.url));

const INTRODUCTION = `# The run configuration

<!-- Written by scripts/generate_reference.ts from config/: change the schema, then run \`deno run -A scripts/generate_reference.ts\`. -->

A run is described by one TOML file. Paths in it resolve against the folder of the file. A key that is left out has the
default of the third column, or the value that the rule in italics gives; a bold **required** key has neither. Sections
that are optional are off when they are left out. Every problem of a file is listed at once, with its line.
`;

/** The table header in TOML: `[[a.b]]` for an array of tables. */
function header(section: string): string {
  return section.endsWith("[]") ? `[[${section.slice(0, -2)}]]` : `[${section}]`;
}

function fallback(key: ConfigKey): string {
  if (key.required) return "**required**";
  if (key.rule !== undefined) return `*${key.rule.replaceAll("<", "&lt;")}*`;
  return `\`${JSON.stringify(key.default)}\``;
}

/** The part of a key that this build lacks, such as "not in this build" or "`dawn` is not in this build". */
function lacking({ key }: ConfigKey): string {
  const entries = notBuiltEntries(key);
  if (entries.length === 0) return "";
  if (isNotBuilt(key)) return " Not in this build.";
  const values = entries.map(({ value }) => value).filter((value) => value !== undefined);
  const named = values.map((value) => `\`${JSON.stringify(value)}\``).join(", ");
  return ` Not in this build: ${named || "anything but the default"}.`;
}

function row(key: ConfigKey): string {
  const name = key.key.slice(key.section.length + 1);
  const type = key.type.replaceAll("|", "\\|");
  return `| \`${name}\` | ${type} | ${fallback(key)} | ${key.description}${lacking(key)} |`;
}

function sectionText({ section, description, keys }: ConfigSection): string {
  const rows = keys.map(row).join("\n");
  return `## ${header(section)}

${description}

| Key | Type | Default or *rule* | Meaning |
|---|---|---|---|
${rows}
`;
}

/** The page's text. */
export function configurationReference(): string {
  return [INTRODUCTION, ...describeConfig().map(sectionText)].join("\n");
}

if (import.meta.main) {
  const text = configurationReference();
  if (!Deno.args.includes("--check")) await writeFileAtomic(PAGE, text);
  else if (await Deno.readTextFile(PAGE).catch(() => "") !== text) {
    console.error(`${PAGE} is not what config/ says: run \`deno run -A scripts/generate_reference.ts\``);
    Deno.exit(1);
  }
}
