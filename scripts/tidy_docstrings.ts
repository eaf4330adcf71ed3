/** The rules that every export which another room uses has a docstring, and every door of a room an example. */

import { dirname, normalize } from "node:path";

/** Files without public exports: tests, test helpers, and developers' programs. */
const NO_PRODUCT = /^(tests|scripts)\/|_(test|fake|contract|testing)\.ts$/;

/** `import {…} from`, `import type {…} from` and `export {…} from` a file of the project. */
const IMPORT = /^(?:import|export)(?: type)? \{([^}]*)\} from "(\.[^"]+\.ts)"/gm;

/** An exported declaration, with the line before it, which may be one too. */
const EXPORT =
  /(?<=^([^\n]*)\n(?:\/\/[^\n]*\n)*)export (?:declare )?(?:abstract )?(?:async )?(?:function\*?|class|interface|type|const|let|enum) (\w+)/gm;

/** The first folder of a path: its room. */
const roomOf = (path: string) => path.split("/")[0]!;

/** A door in the table of ARCHITECTURE.md: its name, and its file in the room. */
const DOOR = /`(\w+)` \(`([\w/]+\.ts)`\)/g;

/** The names that a file imports from other rooms, as `path#name`. */
function usesOf(path: string, text: string): string[] {
  const uses: string[] = [];
  for (const [, names, specifier] of text.matchAll(IMPORT)) {
    const target = normalize(`${dirname(path)}/${specifier}`).replaceAll("\\", "/");
    if (roomOf(target) === roomOf(path)) continue;
    for (const part of names!.split(",")) {
      const name = part.trim().replace(/^type /, "").split(" as ")[0];
      if (name) uses.push(`${target}#${name}`);
    }
  }
  return uses;
}

/** Exports without a docstring that a file of another room imports; imports by tests and scripts do not count. */
export function docstringProblems(files: readonly { path: string; text: string | null }[]): string[] {
  const used = new Set<string>();
  for (const { path, text } of files) {
    if (!path.endsWith(".ts") || NO_PRODUCT.test(path) || text === null) continue;
    for (const use of usesOf(path, text)) used.add(use);
  }
  const problems: string[] = [];
  for (const { path, text } of files) {
    if (!path.endsWith(".ts") || text === null) continue;
    for (const [, before, name] of `\n${text}`.matchAll(EXPORT)) {
      if (!used.has(`${path}#${name}`) || before!.endsWith("*/")) continue;
      problems.push(`${path}: ${name} has no docstring, and another room uses it`);
    }
  }
  return problems;
}

/** The docstring of an export; null without one, or without the export. */
function docstringOf(text: string, name: string): string | null {
  for (const found of `\n${text}`.matchAll(EXPORT)) {
    if (found[2] !== name) continue;
    const before = text.slice(0, found.index - 1);
    return before.endsWith("*/\n") ? before.slice(before.lastIndexOf("/**")) : null;
  }
  return null;
}

/** Doors without an example: the section "Doors" of ARCHITECTURE.md has a row for each room. */
export function doorProblems(files: readonly { path: string; text: string | null }[]): string[] {
  const page = files.find(({ path }) => path === "ARCHITECTURE.md")?.text ?? null;
  if (page === null) return [];
  const section = page.split(/^#+ /m).find((part) => part.startsWith("Doors\n")) ?? "";
  const doors = section.split("\n").flatMap((row) => {
    const room = /^\| `(\w+)\/`/.exec(row)?.[1];
    return [...row.matchAll(DOOR)].map(([, name, file]) => ({ name: name!, path: `${room}/${file}` }));
  });
  if (doors.length === 0) return ["ARCHITECTURE.md: its section Doors names no door"];
  return doors.flatMap(({ name, path }) => {
    const text = files.find((file) => file.path === path)?.text ?? "";
    return /^ \* @example$/m.test(docstringOf(text, name) ?? "")
      ? []
      : [`${path}: the door ${name} has no @example`];
  });
}
