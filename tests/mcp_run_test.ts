/** `svc train` with a real MCP server that fails: the real program on the real engine, and what the run makes of it. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MAX_ANSWER_BYTES } from "../agent/mcp/guarded_fetch.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { mcpCommand, mcpServersMissing } from "./mcp_servers.ts";
import { diesSoon } from "./process_state.ts";
import { expectReplayed, train } from "./replayed_run.ts";

const FAILING = fileURLToPath(new URL("failing_mcp_server_fake.ts", import.meta.url));

/** The time limit of a call in seconds, which one call of a test reaches. */
const CALL_SECONDS = 10;

const TASKS = [
  { user: "Put what \"part2.cfg\" says into 'page.cfg'.", from: "part2.cfg", to: "page.cfg", text: "daisy" },
  { user: 'Copy "report.dat" to "box.md".', from: "report.dat", to: "box.md", text: "modo tunnel" },
];

const missing = mcpServersMissing();

interface Options {
  /** The command of the server, in its library. */
  command: string[];
  required: boolean;
  updates: number;
  group_size: number;
  record?: boolean;
  /** Further keys of the server. */
  keys?: string;
}

/** A run, in the folder `recorded`, that reads the library of a server and writes into its workspace, one attempt at a time. */
async function writeRun(
  root: string,
  { command, required, updates, group_size, record = false, keys = "" }: Options,
): Promise<string> {
  const library = libraryOf(root), config = join(root, "run.toml");
  await Deno.mkdir(library);
  for (const { from, text } of TASKS) await Deno.writeTextFile(join(library, from), text);
  const tasks = TASKS.map(({ user, to, text }, i) => ({
    ...{ id: `task-${i}`, system: "You work on files. Use the tools, then call submit.", user },
    metadata: {
      env: { verify: { command: ["sh", "-c", `test "$(cat ${to})" = "${text}"`], reward_on_success: 1 } },
    },
  }));
  await Deno.writeTextFile(join(root, "tasks.jsonl"), tasks.map((task) => JSON.stringify(task)).join("\n"));
  await Deno.writeTextFile(
    config,
    `
[run]
algorithm = "agent_grpo"
seed = 1
directory = "recorded"
record = ${record}
[model]
path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))}
[training]
ctx = 1024
[agent]
scenarios = "tasks.jsonl"
updates = ${updates}
scenarios_per_update = 1
group_size = ${group_size}
concurrent_rollouts = 1
max_turns = 4
max_new_tokens_per_turn = 48
truncation = "min_reward"
max_dropped_fraction = ${required ? 0.5 : 1}
[[agent.mcp_servers]]
name = "library"
command = ${JSON.stringify(command)}
cwd = "library"
${keys}
allowed_tools = ["read_file"]
required = ${required}
stateless = true
[agent.environment]
type = "local"
allow_unsandboxed = true
tools.default = "desk"
limits = { exec_timeout_secs = ${CALL_SECONDS} }
[agent.environment.toolsets.desk]
version = 1
tools = ["files.write_file", "files.list_dir", "files.submit"]
[observe]
`,
  );
  return config;
}

const libraryOf = (root: string) => join(root, "library");

/** A run whose server fails, of which nothing is left at its end. */
async function trainFailing(
  root: string,
  { acts, ...options }: Omit<Options, "command"> & { acts: string[] },
) {
  const state = join(root, "state"), run = join(root, "recorded");
  await Deno.mkdir(state);
  const failing = [Deno.execPath(), "run", "-A", "--quiet", "--no-config", "--no-lock", FAILING];
  const real = mcpCommand("server-filesystem", libraryOf(root));
  const config = await writeRun(root, {
    ...{ ...options, command: [...failing, state, JSON.stringify(acts), ...real] },
  });
  const { code, events, error } = await train(config);
  const pids = (await Deno.readTextFile(join(state, "pids"))).trim().split(" ");
  const dead = await Promise.all(pids.map(diesSoon));
  assert.ok(dead.length >= 3 && dead.every(Boolean), `${pids}: servers and all that they started are gone`);
  const trajectories = [];
  for (let update = 1; update <= options.updates; update++) {
    const path = join(run, `trajectories/update_00000${update}.jsonl`);
    trajectories.push(await Deno.readTextFile(path).catch(() => ""));
  }
  return { code, events, error, trajectories, log: await Deno.readTextFile(join(run, "log.txt")) };
}

/** The failed attempts of an update: their one cause and the message. */
function failuresOf(trajectories: string): { attribution: string; message: string }[] {
  const lines = trajectories.trimEnd().split("\n").map((line) => JSON.parse(line));
  // deno-lint-ignore no-explicit-any -- a line of a file
  return lines.flatMap(({ facts }) => facts?.members ?? []).filter(({ failure }: any) => failure)
    // deno-lint-ignore no-explicit-any -- a line of a file
    .map(({ attribution, failure }: any) => ({ attribution, message: failure.message }));
}

const metricsOf = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "metrics" ? [event.values] : []);

const lost = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "update" ? [event.lost] : []);

gpuTest(
  "a run goes on while an optional server crashes, hangs, floods, and after it is gone for good",
  () =>
    withFolder(async (root) => {
      const acts = ["crash", "hang", "flood", "gone"], group_size = 6;
      const { code, events, error, log, trajectories } = await trainFailing(root, {
        ...{ acts, required: false, updates: 2, group_size },
      });
      assert.equal(code, 0, error);
      const end = events.at(-1)!;
      assert.ok(end.kind === "end" && end.state === "completed" && !end.deterministic, JSON.stringify(end));
      assert.deepEqual(lost(events), [{ tool_failed: acts.length }, {}]);

      const failures = failuresOf(trajectories[0]!);
      assert.deepEqual(failures.map(({ attribution }) => attribution), acts.map(() => "tool"));
      const call = 'Cannot call "read_file" of the MCP server "library": ';
      assert.deepEqual(failures.map(({ message }) => message), [
        `${call}it exited with status 7`,
        `${call}it gave no answer within ${CALL_SECONDS} s`,
        `${call}it was ended because it wrote more than ${MAX_ANSWER_BYTES} bytes on one line`,
        `${call}it exited with status 9`,
      ]);
      const [first, second] = metricsOf(events);
      const share = acts.length / group_size;
      assert.deepEqual([first!["failure/tool_fraction"], second!["failure/tool_fraction"]], [share, 0]);
      assert.deepEqual([first!["agent/failed_fraction"], second!["agent/failed_fraction"]], [share, 0]);
      for (const other of ["environment", "infrastructure", "judge", "model"]) {
        assert.equal(first![`failure/${other}_fraction`], 0, other);
      }
      assert.ok(second!["stop/submitted"]! > 0, "attempts end as usual without the server");

      assert.match(trajectories[1]!, /"error: the tool is not available"/);
      const told = "the run goes on without its tools: it exited with status 9: the licence has ended";
      assert.equal(log.split(told).length, 2, "said once");
    }),
  () => missing,
);

gpuTest(
  "a run whose required server is gone for good ends with too many lost attempts, and says why",
  () =>
    withFolder(async (root) => {
      const { code, events, error, trajectories } = await trainFailing(root, {
        ...{ acts: ["gone"], required: true, updates: 2, group_size: 3 },
      });
      assert.equal(code, 1, error);
      const end = events.at(-1)!;
      assert.ok(end.kind === "end" && end.state === "failed", JSON.stringify(end));
      assert.deepEqual(lost(events), []);
      assert.deepEqual(failuresOf(trajectories[0]!).map(({ attribution }) => attribution), [
        "tool",
        "environment",
        "environment",
      ]);
      assert.match(
        error,
        /3 of 3 trajectories are lost \(1 tool_failed, 2 environment_failed\), more than agent\.max_dropped_fraction/,
      );
    }),
  () => missing,
);

gpuTest(
  "a run with an MCP server is replayed without the server, what it had read, and its token",
  () =>
    withFolder(async (root) => {
      const program = join(root, "server.sh"), library = libraryOf(root);
      const config = await writeRun(root, {
        ...{ command: ["sh", program], required: true, updates: 1, group_size: 6, record: true },
        keys: 'env = { TOKEN = "${SVC_TEST_LIBRARY_TOKEN}" }',
      });
      const words = mcpCommand("server-filesystem", library).map((word) => `'${word}'`);
      await Deno.writeTextFile(program, `exec ${words.join(" ")}`);
      await expectReplayed(config, {
        ...{ root, env: { SVC_TEST_LIBRARY_TOKEN: "canary" } },
        async gone() {
          await Deno.remove(program);
          await Deno.remove(library, { recursive: true });
        },
      });
      const trajectories = await Deno.readTextFile(join(root, "recorded/trajectories/update_000001.jsonl"));
      assert.match(trajectories, /"role":"tool","content":"(daisy|modo tunnel)"/);
    }),
  () => missing,
);
