/**
 * The gate: format, lint, types, tidiness, generated files and documentation examples, then all tests, part by part.
 * With path arguments it runs only the tests in these paths. The last line is "N passed, N failed, N skipped"; the exit
 * status is 1 when a test failed.
 */

import { fileURLToPath, pathToFileURL } from "node:url";
import { missingGpuVariables } from "../cli/environment.ts";
import { projectFiles } from "./tidy.ts";
import {
  addCounts,
  countTests,
  type Failure,
  failureReport,
  summaryLine,
  type TestCounts,
  withoutReason,
} from "./test_report.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A group of tests: files whose path starts with one of `prefixes`; the longest match over all parts wins. */
interface Part {
  name: string;
  prefixes: string[];
  /** True when the tests of a process may run at the same time: they use no adapter and start no processes. */
  parallel?: boolean;
  /** True when each file has an isolate of its own: files that open devices give back all that they hold at its end. */
  separate?: boolean;
  /** Processes that share the files. A test that waits for its adapter or a child leaves a core to the other process. */
  processes: number;
  /** Prefixes of the files that take longest. Each is a batch of its own before all others, so that none ends the part alone. */
  longest?: readonly string[];
}

const PARTS: readonly Part[] = [
  { name: "gate", prefixes: ["scripts/"], parallel: true, processes: 1 },
  {
    // Up to the bytes that whole runs train, and the memory that they take.
    name: "kernels and trainer",
    prefixes: [
      ...["core/", "data/", "kernels/", "trainer/", "scripts/static_gpu", "tests/golden", "tests/llama_cpp"],
      ...["kill_resume", "planned_memory", "preference", "replay", "warm_start"].map((name) =>
        `tests/${name}_`
      ),
    ],
    separate: true,
    processes: 3,
    longest: ["tests/kill_resume_", "tests/replay_", "tests/warm_start_"],
  },
  {
    // Environments, and the runs that train and measure in them, up to `svc`.
    name: "worlds",
    prefixes: ["agent/", "cli/", "runs/"].concat(
      [
        "agent_eval",
        "container_run",
        "container_tools",
        "judge_run",
        "linked_paths",
      ]
        .map((name) => `tests/${name}_`),
    ),
    processes: 3,
    longest: [
      "tests/agent_eval_",
      "tests/container_",
      "tests/judge_run_",
      "agent/environment/container_test.",
    ],
  },
  {
    // What answers over HTTP, and what only a server does with runs.
    name: "service",
    prefixes: ["config/", "server/", "tests/"].concat(
      ["datasets", "fleet", "jobs", "models", "serving"].map((floor) => `runs/${floor}/`),
    ),
    processes: 3,
    longest: ["tests/prism_"],
  },
  {
    name: "interface",
    prefixes: ["ui/", "tests/interface_", "tests/browser/"],
    processes: 3,
    longest: ["tests/browser/"],
  },
];

/** A process that takes longer is assumed to hang: it is stopped and counts as failed. */
const MAX_PROCESS_MINUTES = 30;

const NOTHING: TestCounts = { passed: 0, failed: [], skipped: [] };

function failedOnce(name: string, message = ""): TestCounts {
  return { passed: 0, failed: [{ name, message }], skipped: [] };
}

/** Environment variables for a software Vulkan driver on Linux; values that are already set stay. */
async function gpuEnvironment(): Promise<Record<string, string>> {
  const environment = missingGpuVariables();
  if (environment.XDG_RUNTIME_DIR !== undefined) {
    environment.XDG_RUNTIME_DIR = `${ROOT}.cache/runtime`;
    await Deno.mkdir(environment.XDG_RUNTIME_DIR, { recursive: true, mode: 0o700 });
  }
  return environment;
}

/**
 * Runs Deno in the root. Returns the exit status, or 124 at the time limit.
 *
 * @param output "inherit" passes the output through as it comes; "at end" prints it once the process has ended.
 */
async function runDeno(args: string[], output: "inherit" | "at end" = "inherit"): Promise<number> {
  const limit = AbortSignal.timeout(MAX_PROCESS_MINUTES * 60_000);
  const command = new Deno.Command(Deno.execPath(), {
    args,
    cwd: ROOT,
    env: await gpuEnvironment(),
    stdin: "null",
    stdout: output === "inherit" ? "inherit" : "piped",
    stderr: output === "inherit" ? "inherit" : "piped",
    signal: limit,
  });
  const code = output === "inherit" ? (await command.spawn().status).code : await printAtEnd(command);
  if (limit.aborted) console.log(`FAILED: ended after ${MAX_PROCESS_MINUTES} minutes`);
  return limit.aborted ? 124 : code;
}

/** Runs a command, then prints what it wrote. Returns the exit status. */
async function printAtEnd(command: Deno.Command): Promise<number> {
  const { code, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  console.log(decoder.decode(stdout) + decoder.decode(stderr));
  return code;
}

function seconds(start_ms: number): string {
  return `${((performance.now() - start_ms) / 1000).toFixed(1)} s`;
}

/** The static checks; each counts as a test. */
async function runChecks(paths: readonly string[]): Promise<TestCounts> {
  const generators = paths.filter((path) => /^scripts\/generate_\w+(?<!_test)\.ts$/.test(path));
  const checks: [string, string[]][] = [
    ["format", ["fmt", "--check", "--quiet"]],
    ["lint", ["lint", "--quiet"]],
    ["types", ["check", "--quiet", ...paths.filter((path) => /\.tsx?$/.test(path))]],
    ["tidy", ["run", "-A", "scripts/tidy.ts"]],
    ...generators.map((path): [string, string[]] => [path, ["run", "-A", path, "--check"]]),
  ];
  let counts = NOTHING;
  for (const [name, args] of checks) {
    const start_ms = performance.now();
    const passed = await runDeno(args) === 0;
    console.log(`${passed ? "ok    " : "FAILED"} ${name} (${seconds(start_ms)})`);
    counts = addCounts(counts, passed ? { ...NOTHING, passed: 1 } : failedOnce(`check "${name}"`));
  }
  return counts;
}

/** Runs test files in one process. A process that crashes, or fails outside of any test, counts as a failed test. */
async function runTests(
  files: readonly string[],
  more: readonly string[] = [],
  output: "inherit" | "at end" = "inherit",
): Promise<TestCounts> {
  if (files.length === 0) return NOTHING;
  const junit = await Deno.makeTempFile({ suffix: ".xml" });
  try {
    const flags = ["-A", "--no-check", `--junit-path=${junit}`, ...more];
    const code = await runDeno(["test", ...flags, ...files], output);
    const counts = countTests(await Deno.readTextFile(junit));
    if (code === 0 || counts.failed.length > 0) return counts;
    const failure = `deno test exited with status ${code} outside of any test`;
    console.log(`FAILED: ${failure}`);
    return addCounts(counts, failedOnce(failure, files.join("\n")));
  } finally {
    await Deno.remove(junit);
  }
}

/**
 * Runs test files in one process and one isolate, which loads the modules that they share once. In an isolate for each
 * file, loading takes longer than the tests of most files.
 */
async function runJoined(files: readonly string[], output: "inherit" | "at end"): Promise<TestCounts> {
  const folder = `${ROOT}.cache`;
  await Deno.mkdir(folder, { recursive: true });
  const joined = await Deno.makeTempFile({ dir: folder, prefix: "joined_", suffix: "_test.ts" });
  try {
    await Deno.writeTextFile(joined, joinFiles(files.map((file) => ROOT + file)));
    return await runTests([joined], [], output);
  } finally {
    await Deno.remove(joined);
  }
}

/** A module that loads test files one after the other, so that their tests keep this order. */
export function joinFiles(paths: readonly string[]): string {
  return paths.map((path) => `await import(${JSON.stringify(pathToFileURL(path).href)});\n`).join("");
}

/** A process that ends early takes the next batch, so a part ends at about the same time in all of its processes. */
const BATCHES_PER_PROCESS = 4;

/**
 * Deals files to batches in turn, so that neighbours in a folder, which take about as long, do not pile up in one.
 *
 * @param longest Prefixes of files that are a batch each, before the others.
 */
export function dealFiles(
  files: readonly string[],
  batches: number,
  longest: readonly string[] = [],
): string[][] {
  const is_long = (file: string) => longest.some((prefix) => file.startsWith(prefix));
  const others = files.filter((file) => !is_long(file));
  const dealt = Array.from({ length: batches }, (_, batch) => others.filter((_, i) => i % batches === batch));
  return [...files.filter(is_long).map((file) => [file]), ...dealt.filter((batch) => batch.length > 0)];
}

/** Runs the test files of a part. The output of one process is passed through, that of others follows. */
async function runPart(
  { parallel, separate, processes, longest }: Part,
  files: readonly string[],
): Promise<TestCounts> {
  if (parallel) return await runTests(files, ["--parallel"]);
  const batches = dealFiles(files, processes === 1 ? 1 : processes * BATCHES_PER_PROCESS, longest);
  const work = async (output: "inherit" | "at end") => {
    let counts = NOTHING;
    for (let dealt = batches.shift(); dealt; dealt = batches.shift()) {
      counts = addCounts(counts, await (separate ? runTests(dealt, [], output) : runJoined(dealt, output)));
    }
    return counts;
  };
  const counts = await Promise.all(
    Array.from({ length: processes }, (_, i) => work(i === 0 ? "inherit" : "at end")),
  );
  return counts.reduce(addCounts, NOTHING);
}

/** Runs the `@example`s in docstrings as tests. Types stay unchecked: Deno imports all exports, of which few are used. */
async function runExamples(paths: readonly string[]): Promise<TestCounts> {
  const start_ms = performance.now();
  const files: string[] = [];
  for (const path of paths.filter((path) => path.endsWith(".ts") && !path.startsWith("scripts/"))) {
    if (/^ *\* @example$/m.test(await Deno.readTextFile(ROOT + path))) files.push(path);
  }
  const counts = await runTests(files, ["--doc"]);
  console.log(`${counts.failed.length === 0 ? "ok    " : "FAILED"} examples (${seconds(start_ms)})`);
  return counts;
}

/** The part that a test file belongs to. @throws When there is none. */
export function partOf(path: string): string {
  let best = { name: "", length: 0 };
  for (const { name, prefixes } of PARTS) {
    for (const prefix of prefixes) {
      if (path.startsWith(prefix) && prefix.length > best.length) best = { name, length: prefix.length };
    }
  }
  if (!best.name) throw new Error(`Cannot test ${path}: it belongs to no part of scripts/ok.ts`);
  return best.name;
}

/** Prints skipped tests with their reasons, then all failures; a skipped test without a reason counts as failed. */
function finish(counts: TestCounts): never {
  if (counts.skipped.length) {
    console.log(`\nskipped:\n${counts.skipped.map((name) => `  ${name}`).join("\n")}`);
  }
  const mute = withoutReason(counts.skipped);
  const failed = [
    ...counts.failed,
    ...mute.map((name): Failure => ({
      name,
      message: 'It was skipped without a reason, "name (skipped: reason)".',
    })),
  ];
  if (failed.length) console.log(`\n${failureReport(failed)}`);
  const skipped = counts.skipped.filter((name) => !mute.includes(name));
  console.log(`\n${summaryLine({ ...counts, failed, skipped })}`);
  Deno.exit(failed.length ? 1 : 0);
}

async function testPaths(tests: readonly string[], wanted: readonly string[]): Promise<TestCounts> {
  const base = `${Deno.cwd()}/`;
  const prefixes = wanted.map((path) => (path.startsWith("/") ? path : base + path).replace(/\/+$/, ""));
  const absolute = (path: string) => ROOT + path;
  const chosen = tests.filter((test) =>
    prefixes.some((prefix) => absolute(test) === prefix || absolute(test).startsWith(`${prefix}/`))
  );
  if (chosen.length === 0) {
    return failedOnce(wanted.join(", "), "There is no *_test.ts there.");
  }
  return await runTests(chosen);
}

async function main(wanted: readonly string[]): Promise<void> {
  const paths: string[] = [];
  for await (const file of projectFiles(ROOT)) paths.push(file.path);
  paths.sort();
  const tests = paths.filter((path) => /_test\.tsx?$/.test(path));
  if (wanted.length) finish(await testPaths(tests, wanted));

  const times: string[] = [];
  const setup = Deno.env.get("SETUP_SECONDS");
  if (setup) times.push(`set-up ${setup} s`);
  let counts = NOTHING;
  for (const part of PARTS) {
    const start_ms = performance.now();
    console.log(`\n== ${part.name}`);
    if (part.name === "gate") {
      counts = addCounts(counts, await runChecks(paths));
      counts = addCounts(counts, await runExamples(paths));
    }
    const files = tests.filter((test) => partOf(test) === part.name);
    counts = addCounts(counts, await runPart(part, files));
    times.push(`${part.name} ${seconds(start_ms)}`);
  }
  console.log(`\nwall time: ${times.join(", ")}`);
  finish(counts);
}

if (import.meta.main) await main(Deno.args);
