/** `svc train` in an environment behind a server: the real program, workers with their permissions, and the real engine. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { answerRequest, liveAttempts } from "../examples/tiny_agent_environment.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { withFolder } from "./folder.ts";

const KEY_VARIABLE = "SVC_TEST_ENVIRONMENT_KEY", CANARY = "sk-canary-0123456789abcdefghijklmnop";
const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Served {
  base_url: string;
  /** The paths of all requests. */
  paths: string[];
  seeds: number[];
  /** The values of `authorization`. */
  keys: Set<string | null>;
}

/** The example's server, whose attempts start with something to see. */
async function withServer(use: (served: Served) => Promise<void>): Promise<void> {
  const paths: string[] = [], seeds: number[] = [], keys = new Set<string | null>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const { pathname } = new URL(request.url), authorization = request.headers.get("authorization");
    keys.add(authorization);
    paths.push(pathname);
    if (pathname !== "/reset") return await answerRequest(request);
    const body = await request.clone().json();
    seeds.push(body.seed);
    const answer = await (await answerRequest(request)).json();
    return Response.json({
      ...answer,
      observation: `You sent ${authorization}. The folder has ${
        Object.keys(body.scenario.metadata.env.files)
      }.`,
    });
  });
  try {
    await use({ base_url: `http://127.0.0.1:${server.addr.port}`, paths, seeds, keys });
  } finally {
    await server.shutdown();
  }
}

async function svc(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const env = { [KEY_VARIABLE]: CANARY };
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "cli.ts", ...args],
    cwd: ROOT,
    env,
  });
  const { code, stdout, stderr } = await command.output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, out: text(stdout), err: text(stderr) };
}

/** All of a folder's files, as text. */
async function textsIn(folder: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) texts.push(...await textsIn(path));
    else texts.push(new TextDecoder("latin1").decode(await Deno.readFile(path)));
  }
  return texts;
}

const EXAMPLE = "examples/tiny_agent_http.toml";

gpuTest("svc train runs to its end in an environment behind a server", async () => {
  await withFolder((root) =>
    withServer(async ({ base_url, paths, seeds, keys }) => {
      const { code, out, err } = await svc(
        ...[
          "train",
          EXAMPLE,
          "--json",
          `agent.environment.api_key_env=${KEY_VARIABLE}`,
          `agent.environment.base_url=${base_url}`,
          "agent.updates=1",
        ],
        ...["agent.scenarios_per_update=2", "agent.group_size=4", "agent.max_turns=4"],
        ...[`run.directory=${root}/run`, `output.path=${root}/adapter.gguf`],
      );
      assert.equal(code, 0, err);
      const events = out.split("\n").filter((line) => line.startsWith("{")).map((line) =>
        JSON.parse(line) as RunEvent
      );
      const update = events.find((event) => event.kind === "update");
      assert.deepEqual([update?.lost, update?.failure], [{}, null]);
      const end = events.find((event) => event.kind === "end");
      assert.equal(end?.deterministic, true);
      assert.ok((await Deno.stat(join(root, "adapter.gguf"))).size > 0);

      assert.equal(liveAttempts(), 0);
      const count = (path: string) => paths.filter((found) => found === path).length;
      assert.deepEqual([count("/reset"), count("/close"), count("/state")], [8, 8, 0]);
      assert.ok(count("/tools") >= 1 && count("/step") >= 8, paths.join());
      assert.equal(new Set(seeds).size, 2, "one for each scenario");

      const lines = await Deno.readTextFile(join(root, "run/trajectories/update_000001.jsonl"));
      const groups = lines.trim().split("\n").map((line) => JSON.parse(line));
      const facts = groups.flatMap(({ facts }) => facts ?? []);
      assert.deepEqual(facts.map(({ graded_by, toolset }) => [graded_by, toolset.name]), [
        ["environment", "http"],
        ["environment", "http"],
      ]);
      const prompts = groups.flatMap(({ texts }) => texts?.prompt_messages ?? []);
      const tasks = prompts.filter(({ role }) => role === "user");
      assert.ok(
        tasks.length === 2 &&
          tasks.every(({ content }) => /\n\nYou sent Bearer \[key\]\. The folder has .*\.$/.test(content)),
        lines,
      );
      assert.deepEqual([...keys], [`Bearer ${CANARY}`]);
      for (const text of [out, err, ...await textsIn(root)]) {
        assert.ok(!text.includes(CANARY.slice(3, 11)), text);
      }
    })
  );
});

Deno.test("svc tools list asks the environment's server, and says when there is none", async () => {
  let address = "";
  await withServer(async ({ base_url, paths }) => {
    address = `agent.environment.base_url=${base_url}`;
    const { code, out } = await svc("tools", "list", EXAMPLE, address, "--json");
    assert.equal(code, 0);
    const [{ toolset, version, default: is_default, tools }] = JSON.parse(out);
    assert.deepEqual([toolset, is_default], ["http", true]);
    assert.match(version, /^[0-9a-f]{16}$/);
    const expected = await Deno.readTextFile(`${ROOT}fixtures/models/tiny-agent/tools.json`);
    assert.equal(JSON.stringify(tools), JSON.stringify(JSON.parse(expected)), "as the model was trained on");
    assert.deepEqual(paths, ["/tools"]);
  });
  const { code, err } = await svc("tools", "list", EXAMPLE, address);
  assert.equal(code, 1);
  assert.match(
    err,
    /Cannot use the environment server http:\/\/127\.0\.0\.1:\d+: GET \/tools was refused: no server/,
  );
});
