/**
 * Rules of this code base that a single syntax tree cannot show: import cycles, file sizes, names, shader headers,
 * forbidden words, docstrings of exports used by other rooms, examples of doors, and a decision for every dependency.
 * Prints one problem a line; exit status 1 when there is one.
 */

import { fileURLToPath } from "node:url";
import { docstringProblems, doorProblems } from "./tidy_docstrings.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MAX_LINES: Readonly<Record<string, number>> = { ts: 400, tsx: 400, wgsl: 200 };

/** Folders without our own files. */
const SKIPPED = /^(\.git|\.cache|svc-data|dist|ui\/dist|fixtures|examples\/runs)$|(^|\/)node_modules$/;

/** Text is read from files with these extensions, and from files without one. */
const TEXT = /(^|\/)[^.]+$|\.(ts|tsx|js|mjs|wgsl|md|toml|json|jsonl|sh|py|css|html|yml|yaml)$/;

/** Forbidden words, with what to do instead; written so that no pattern matches its own source. */
const FORBIDDEN: readonly (readonly [RegExp, string])[] = [
  [/\bTO[D]O\b|\bFIX[M]E\b|\bX[X]X\b|\bHA[C]K\b/, "finish it, or write an issue"],
  [/\/work\/(ma[i]n|sha[r]ed)\b|\/home\/[a-z]|\/ro[o]t\/|\/tm[p]\/w\//, "a path of one machine"],
  [/\.libr[a]ry\/|\.\.\/sha[r]ed\/(spec|design|data)/, "a path of one machine"],
];

/** A file of the project: its path from the root, with slashes, and its text (null for binary files). */
export interface ProjectFile {
  path: string;
  text: string | null;
}

/** Files with too many lines. */
export function sizeProblems(file: ProjectFile): string[] {
  const limit = MAX_LINES[file.path.split(".").at(-1)!];
  if (!limit || file.text === null || file.path.startsWith("api/")) return [];
  const lines = file.text.split("\n").length - (file.text.endsWith("\n") ? 1 : 0);
  return lines > limit ? [`${file.path}: ${lines} lines, at most ${limit}`] : [];
}

/** Names that are not snake_case. Files at the root and npm's own names follow their tools. */
export function nameProblems(file: ProjectFile): string[] {
  const parts = file.path.split("/");
  if (parts.length === 1) return [];
  const wrong = parts.filter((part) =>
    !/^\.?[a-z0-9]+([_.][a-z0-9]+)*$/.test(part) && !/^(package(-lock)?\.json|README\.md)$/.test(part)
  );
  return wrong.map((part) => `${file.path}: ${part} is not snake_case`);
}

/** A shader's header has a line for every buffer and, in a file with a complete kernel, a formula. */
export function shaderProblems(file: ProjectFile): string[] {
  if (!file.path.endsWith(".wgsl") || file.text === null) return [];
  const header = file.text.match(/^(?:\/\/[^\n]*\n)+/)?.[0] ?? "";
  const problems: string[] = [];
  if (!header) problems.push(`${file.path}: there is no header`);
  if (/^\s*@compute/m.test(file.text) && !/[=Σ←]/.test(header)) {
    problems.push(`${file.path}: the header has no formula`);
  }
  for (
    const [, name] of file.text.matchAll(/^\s*(?:@\w+\([^)]*\)\s*)*var<(?:storage|uniform)[^>]*>\s*(\w+)/gm)
  ) {
    if (new RegExp(`^//\\s+([^\\n]*[ ,])?${name}[ ,]`, "m").test(header)) continue;
    problems.push(`${file.path}: the header has no line for the buffer ${name}`);
  }
  return problems;
}

/** Lines with a forbidden word. */
export function wordProblems(file: ProjectFile): string[] {
  const problems: string[] = [];
  for (const [index, line] of (file.text ?? "").split("\n").entries()) {
    for (const [pattern, advice] of FORBIDDEN) {
      const found = line.match(pattern);
      if (found) problems.push(`${file.path}:${index + 1}: ${found[0]} may not appear: ${advice}`);
    }
  }
  return problems;
}

/** Where it is said why the project depends on a package. */
export const PACKAGES_FILE = "docs/decisions/packages.md";

/**
 * Dependencies without a decision, and imports that are not pinned to one version.
 *
 * @param decisions The text of {@link PACKAGES_FILE}: its headings of the second level name packages.
 */
export function dependencyProblems(imports: Record<string, string>, decisions: string): string[] {
  const headings = [...decisions.matchAll(/^## (.+)$/gm)].flatMap(([, names]) => names!.split(", "));
  const problems: string[] = [];
  for (const [name, target] of Object.entries(imports)) {
    if (!/^npm:.+@\d+\.\d+\.\d+$/.test(target)) {
      problems.push(`deno.json: ${name} is not pinned to one version of an npm package: ${target}`);
    }
    if (!headings.includes(name)) problems.push(`deno.json: ${name} has no section in ${PACKAGES_FILE}`);
  }
  return problems;
}

/** The first cycle through each strongly connected part of a graph, as `a → b → a`. */
export function cycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const found: string[] = [], done = new Set<string>(), path: string[] = [];
  const visit = (node: string) => {
    const seen = path.indexOf(node);
    if (seen >= 0) found.push([...path.slice(seen), node].join(" → "));
    if (seen >= 0 || done.has(node)) return;
    path.push(node);
    for (const next of graph.get(node) ?? []) visit(next);
    path.pop();
    done.add(node);
  };
  for (const node of graph.keys()) visit(node);
  return found;
}

/** The used part of the answer of `deno info --json`. */
interface ModuleInfo {
  specifier: string;
  dependencies?: { code?: { specifier?: string }; type?: { specifier?: string } }[];
}

/** The imports between the project's files, including types, from `deno info`. */
export async function importGraph(root: string, paths: readonly string[]): Promise<Map<string, string[]>> {
  const base = new URL(`file://${root}`);
  const entry = `${root}.cache/every_module_${Deno.pid}.ts`;
  await Deno.mkdir(`${root}.cache`, { recursive: true });
  await Deno.writeTextFile(entry, paths.map((path) => `import "${new URL(path, base)}";\n`).join(""));
  try {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["info", "--json", entry],
      cwd: root,
    }).output();
    if (code !== 0) throw new Error(`Cannot read the import graph: ${new TextDecoder().decode(stderr)}`);
    const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: ModuleInfo[] };
    const name = (specifier: string) => specifier.slice(base.href.length);
    const graph = new Map<string, string[]>();
    for (const module of modules) {
      if (!module.specifier.startsWith(base.href) || module.specifier === new URL(entry, base).href) continue;
      const targets = (module.dependencies ?? []).map((d) => d.code?.specifier ?? d.type?.specifier ?? "");
      graph.set(name(module.specifier), targets.filter((target) => target.startsWith(base.href)).map(name));
    }
    return graph;
  } finally {
    await Deno.remove(entry);
  }
}

/** All files of the project below `folder` (from the root, "" for all of it). */
export async function* projectFiles(root: string, folder = ""): AsyncGenerator<ProjectFile> {
  for await (const entry of Deno.readDir(root + folder)) {
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (SKIPPED.test(path)) continue;
    if (entry.isDirectory) yield* projectFiles(root, path);
    else if (entry.isFile) {
      yield { path, text: TEXT.test(path) ? await Deno.readTextFile(root + path) : null };
    }
  }
}

/** All problems of the project. */
export async function tidyProblems(root: string): Promise<string[]> {
  const files: ProjectFile[] = [];
  for await (const file of projectFiles(root)) files.push(file);
  files.sort((a, b) => a.path < b.path ? -1 : 1);
  const paths = files.map((file) => file.path);
  const { imports } = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  const graph = await importGraph(root, paths.filter((path) => /\.tsx?$/.test(path)));
  return [
    ...files.flatMap((
      f,
    ) => [...sizeProblems(f), ...nameProblems(f), ...shaderProblems(f), ...wordProblems(f)]),
    ...docstringProblems(files),
    ...doorProblems(files),
    ...dependencyProblems(imports, files.find(({ path }) => path === PACKAGES_FILE)?.text ?? ""),
    ...cycles(graph).map((cycle) => `Import cycle: ${cycle}`),
  ];
}

if (import.meta.main) {
  const problems = await tidyProblems(ROOT);
  for (const problem of problems) console.error(problem);
  if (problems.length) Deno.exit(1);
}
