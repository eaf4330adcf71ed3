/**
 * Rules of this code base that a syntax tree can show, as a plugin of `deno lint`: imports between rooms, names,
 * barrels, the source of WebGPU, and the length and parameters of functions. The table of rooms is that of
 * ARCHITECTURE.md; change both together.
 */

import { dirname, normalize, relative } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const MAX_FUNCTION_LINES = 70;
const MAX_PARAMETERS = 3;

/** The parts of the trainer that agent may import; folders end in a slash. */
const AGENT_DOORS = ["trainer/tokenizer/", "trainer/formats/", "trainer/protocol/"];

/** Those that runs may import. */
const RUNS_DOORS = [
  ...AGENT_DOORS,
  "trainer/engine/plan_memory.ts",
  "trainer/engine/memory_advice.ts",
  "trainer/engine/inspect_model.ts",
  "trainer/learning/packing.ts",
  "trainer/model/architectures/registry.ts",
];

/** The folders and files that each room may import besides its own; `null`: everything except tests and scripts. */
const ROOMS: Readonly<Record<string, readonly string[] | null>> = {
  core: [],
  config: ["core/"],
  kernels: ["core/"],
  trainer: ["core/", "config/", "kernels/"],
  data: ["core/", "config/"],
  agent: ["core/", "config/", "data/", ...AGENT_DOORS],
  runs: ["core/", "config/", "data/", "agent/", ...RUNS_DOORS],
  server: ["core/", "config/", "runs/"],
  cli: null,
  api: [],
  ui: ["api/", "config/text/locate.ts"],
};

/** The floor of the files that lie in the room itself, if they are not listed. */
const OWN_FILES = "*.ts";

/** The floor of all folders that are not listed. None of them imports another one. */
const OTHER_FOLDERS = "*/";

/**
 * The floors of a room, lowest first, as folders, files, {@link OWN_FILES} or {@link OTHER_FOLDERS}. A file imports from
 * its own floor and lower ones.
 */
const FLOORS: Readonly<Record<string, readonly string[]>> = {
  config: [
    "text",
    "algorithms.ts",
    "sections",
    "schema.ts",
    "describe.ts",
    "environments.ts",
    "key_effects.ts",
    "check",
    "server",
  ],
  kernels: [
    "webgpu",
    "shared",
    OWN_FILES,
    "weights",
    "soft_cap",
    "attention",
    "loss",
    "gated_activation",
    OTHER_FOLDERS,
    "fused",
    "canary",
    "tuning",
  ],
  trainer: [
    "protocol",
    "formats",
    "tokenizer",
    "grammar",
    "model",
    "learning",
    "sampler",
    "engine",
  ],
  agent: [
    "trajectory",
    "tools",
    "environment",
    "mcp",
    "grading",
    "judge",
    "recording",
    "rollout",
    "results",
    "configured.ts",
  ],
  runs: [
    "record",
    "views",
    "directory",
    "results",
    "chat",
    "session",
    "algorithms",
    "plan",
    "datasets",
    "models",
    "jobs",
    "process",
    "fleet",
    "serving",
  ],
  ui: ["client", "routes.ts", "parts", "pages", "app.tsx", "main.tsx"],
  server: [
    "http",
    "telemetry",
    "access",
    "store",
    "sources",
    "routing",
    "resources",
    "requests",
    "routes",
    "route_table.ts",
    "view_routes.ts",
    "app.ts",
    "listen",
  ],
};

/**
 * The folders below a floor, each with the file or folder that imports it; `*` is any name. A folder with entries of a
 * registry lies beside their interface, so that folder and registry would import each other: an entry imports what lies
 * above it except the registry, the registry imports entries, and nothing else does. Of two lines for one folder the
 * first one counts.
 */
const NESTED: Readonly<Record<string, string>> = {
  // The parts of one page.
  "ui/pages/new_run/": "ui/pages/new_run.tsx",
  // The parts of one kind of environment.
  "agent/environment/container/": "agent/environment/container.ts",
  "agent/tools/builtin/*": "agent/tools/toolsets.ts",
  // Parts of the algorithms that have rollouts.
  "runs/algorithms/rollouts/": "runs/algorithms/",
  "runs/algorithms/*/": "runs/algorithms/registry.ts",
  "trainer/model/architectures/": "trainer/model/architectures/registry.ts",
  "trainer/tokenizer/bpe/": "trainer/tokenizer/kinds/",
  "trainer/tokenizer/kinds/*": "trainer/tokenizer/read_tokenizer.ts",
  "trainer/tokenizer/spm/": "trainer/tokenizer/kinds/",
  "trainer/tokenizer/tool_calls/*": "trainer/tokenizer/tool_calls/registry.ts",
};

/** Fakes (`_fake`), contract suites (`_contract`) and shared test code (`_testing`): they may import every floor. */
const TEST_HELPER = /_(fake|contract|testing)\.ts$/;

/** A kernel's reference, cases and benches: for tests and for each other, like test helpers. */
const KERNEL_TEST_FILE = /^kernels\/.*_(reference|cases|bench)\.ts$/;

/** Only tests may import these folders; tests share helpers in `tests/`. */
const CLOSED_TO_ROOMS = ["tests/", "scripts/"];

/** Further files that a room's tests may import. */
const TEST_EXTRAS = ["tests/", "trainer/engine/scripted_engine_fake.ts"];

/** Numeric code may take its dimensions as separate parameters. */
const NUMERIC = /^(kernels|trainer\/model|trainer\/learning)\/|^core\/random\.ts$|_reference\.ts$/;

/** True when the path (from the root) is a test. */
function isTest(path: string): boolean {
  return /_test\.tsx?$/.test(path);
}

/** True for files that product code never imports. */
function isForTests(path: string): boolean {
  return isTest(path) || TEST_HELPER.test(path) || KERNEL_TEST_FILE.test(path);
}

/** Why `from` may not import `to` (paths from the root), or null when it may. */
export function importProblem(from: string, to: string): string | null {
  const room = from.split("/")[0]!;
  if (to.startsWith("..")) return `${to} lies outside the project`;
  const is_product = !isForTests(from) && room !== "scripts" && room !== "tests";
  if (is_product && isForTests(to)) return `${from} is no test: it may not import ${to}`;
  if (!from.includes("/") || room === "scripts" || room === "tests") return null;
  if (!Object.hasOwn(ROOMS, room)) {
    return `${room}/ is no room: add it to ARCHITECTURE.md and scripts/lint_rooms.ts`;
  }
  const nested = is_product ? nestedProblem(from, to) : null;
  if (nested !== null) return nested;
  if (to.startsWith(`${room}/`)) return floorProblem(from, to);
  const allowed = ROOMS[room]!;
  const admits = (entries: readonly string[]) =>
    entries.some((entry) => to === entry || to.startsWith(entry));
  if (isTest(from) && admits(TEST_EXTRAS)) return null;
  if (allowed === null) {
    return admits(CLOSED_TO_ROOMS) || !to.includes("/") ? `${room}/ may not import ${to}` : null;
  }
  if (admits(allowed.filter((entry) => entry.endsWith("/"))) || allowed.includes(to)) return null;
  const list = allowed.length ? allowed.join(", ") : "nothing";
  return `${room}/ may not import ${to}: of the other rooms it sees ${list}`;
}

/** Why a file may not import another file of its room, or null when it may. */
function floorProblem(from: string, to: string): string | null {
  const room = from.split("/")[0]!, floors = FLOORS[room];
  if (!floors || isForTests(from)) return null;
  const [at, below] = [from, to].map((path) => floorOf(path.slice(room.length + 1), floors)) as [
    number,
    number,
  ];
  if (at < 0 || below < 0) return `${at < 0 ? from : to} lies on no floor of ${room}/: ${floors.join(", ")}`;
  if (below > at) return `${from} may not import ${to}, which lies on a floor above`;
  const is_other = below === at && floors[at] === OTHER_FOLDERS && from.split("/")[1] !== to.split("/")[1];
  return is_other ? `${from} may not import ${to}: give that folder a floor of its own` : null;
}

/** The floor of a path inside its room; -1 when it has none. */
function floorOf(path: string, floors: readonly string[]): number {
  const [first, ...inner] = path.split("/");
  const named = floors.indexOf(first!);
  return named >= 0 ? named : floors.indexOf(inner.length === 0 ? OWN_FILES : OTHER_FOLDERS);
}

/** Why a file may not import a file below a floor, or null when it may. */
function nestedProblem(from: string, to: string): string | null {
  const [room, ...inner] = to.split("/");
  const patterns = Object.entries(NESTED);
  if (inner.length > 2 && FLOORS[room!] && !patterns.some(([pattern]) => entryOf(to, pattern) !== null)) {
    return `${to} lies below a floor: add its folder to NESTED in scripts/lint_rooms.ts`;
  }
  for (const [pattern, importer] of patterns) {
    const own = entryOf(from, pattern), entry = entryOf(to, pattern);
    if (own === entry) continue;
    if (own !== null && to === importer) return `${from} may not import ${to}, which imports it`;
    if (entry === null || to === importer) continue;
    if (from.startsWith(importer)) return null;
    const who = entryOf(importer, pattern) === null
      ? `only ${importer} imports it`
      : `import ${importer} in its place`;
    return `${from} may not import ${to}: ${who}`;
  }
  return null;
}

/** The part of a path that matches a pattern of {@link NESTED}: an entry, or a folder with all its files. */
function entryOf(path: string, pattern: string): string | null {
  return new RegExp(`^${pattern.replace("*", "[^/]+")}`).exec(path)?.[0] ?? null;
}

function pathFromRoot(filename: string): string {
  return relative(ROOT, filename.startsWith("file:") ? fileURLToPath(filename) : filename).replaceAll(
    "\\",
    "/",
  );
}

function checkImports(context: Deno.lint.RuleContext): Deno.lint.LintVisitor {
  const from = pathFromRoot(context.filename);
  const check = (source: Deno.lint.Node | null) => {
    if (source?.type !== "Literal" || typeof source.value !== "string") return;
    const specifier = source.value;
    if (specifier.startsWith("https:") || specifier.startsWith("http:") || specifier.startsWith("jsr:")) {
      context.report({
        node: source,
        message: `${specifier}: packages come from npm, through deno.json's imports`,
      });
    } else if (specifier.startsWith("npm:")) {
      context.report({ node: source, message: `${specifier}: name the package in deno.json's imports` });
    } else if (specifier.startsWith(".")) {
      const problem = importProblem(from, normalize(`${dirname(from)}/${specifier}`).replaceAll("\\", "/"));
      if (problem) context.report({ node: source, message: problem });
    }
  };
  return {
    ImportDeclaration: (node) => check(node.source),
    ExportNamedDeclaration: (node) => check(node.source),
    ExportAllDeclaration: (node) => check(node.source),
    ImportExpression: (node) => check(node.source),
  };
}

function checkBarrels(context: Deno.lint.RuleContext): Deno.lint.LintVisitor {
  return {
    Program(node) {
      if (/^(index|mod)\.[jt]sx?$/.test(context.filename.split(/[\\/]/).at(-1)!)) {
        context.report({
          node,
          message: "No barrels: name the file by what it holds and import it directly",
        });
      }
      const imported = importedNames(node);
      for (const statement of node.body) {
        if (passesOn(statement, imported)) {
          context.report({
            node: statement,
            message: "No barrels: import from the file that defines the name",
          });
        }
      }
    },
  };
}

/** The names that a module has from others. */
function importedNames({ body }: Deno.lint.Program): Set<string> {
  return new Set(
    body.flatMap((node) => node.type === "ImportDeclaration" ? node.specifiers : []).map((x) => x.local.name),
  );
}

/** True when a statement exports a name of another module, whose importers would escape the table of rooms. */
function passesOn(node: Deno.lint.Program["body"][number], imported: ReadonlySet<string>): boolean {
  if (node.type === "ExportAllDeclaration") return true;
  if (node.type !== "ExportNamedDeclaration") return false;
  return node.source !== null ||
    node.specifiers.some(({ local }) => local.type === "Identifier" && imported.has(local.name));
}

function checkFileName(context: Deno.lint.RuleContext): Deno.lint.LintVisitor {
  return {
    Program(node) {
      const path = pathFromRoot(context.filename);
      for (const part of path.split("/")) {
        if (!/^[a-z0-9]+(_[a-z0-9]+)*(\.d)?(\.[a-z]+)?$/.test(part)) {
          context.report({ node, message: `${part} in ${path}: files and folders are snake_case` });
        }
      }
    },
  };
}

/** The only file that takes WebGPU from the runtime. */
const RUNTIME_WEBGPU = "kernels/webgpu/deno_provider.ts";

function checkWebGpu(context: Deno.lint.RuleContext): Deno.lint.LintVisitor {
  if (pathFromRoot(context.filename) === RUNTIME_WEBGPU) return {};
  const message =
    `WebGPU comes from a provider (kernels/webgpu/): only ${RUNTIME_WEBGPU} takes the runtime's`;
  const check = (node: Deno.lint.Node) => {
    const text = context.sourceCode.getText(node);
    if (/^(\w+\.)?navigator(\??\.gpu|\[.gpu.\])$|^\{[^}]*\bgpu\b[^]*= navigator$/.test(text)) {
      context.report({ node, message });
    }
  };
  return { MemberExpression: check, VariableDeclarator: check };
}

type FunctionNode =
  | Deno.lint.FunctionDeclaration
  | Deno.lint.FunctionExpression
  | Deno.lint.ArrowFunctionExpression;

const FUNCTIONS = "FunctionDeclaration, FunctionExpression, ArrowFunctionExpression";

function checkFunctionLength(context: Deno.lint.RuleContext): Deno.lint.LintVisitor {
  return {
    [FUNCTIONS](node: FunctionNode) {
      const text = context.sourceCode.text.slice(node.range[0], node.range[1]);
      const lines = text.split("\n").length;
      if (lines <= MAX_FUNCTION_LINES) return;
      context.report({ node, message: `A function of ${lines} lines: at most ${MAX_FUNCTION_LINES}` });
    },
  };
}

function checkParameters(context: Deno.lint.RuleContext): Deno.lint.LintVisitor {
  if (NUMERIC.test(pathFromRoot(context.filename))) return {};
  return {
    [FUNCTIONS](node: FunctionNode) {
      const isThis = (parameter: Deno.lint.Parameter) =>
        parameter.type === "Identifier" && parameter.name === "this";
      const count = node.params.filter((parameter) => !isThis(parameter)).length;
      if (count <= MAX_PARAMETERS) return;
      context.report({
        node,
        message: `A function of ${count} parameters: at most ${MAX_PARAMETERS}; take an options object`,
      });
    },
  };
}

const plugin: Deno.lint.Plugin = {
  name: "rooms",
  rules: {
    "imports": { create: checkImports },
    "no-barrels": { create: checkBarrels },
    "file-names": { create: checkFileName },
    "webgpu-provider": { create: checkWebGpu },
    "function-length": { create: checkFunctionLength },
    "max-parameters": { create: checkParameters },
  },
};

export default plugin;
