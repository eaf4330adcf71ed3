/** The servers of docs/guides/environments.md, as the guide has them. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { httpEnvironments } from "../agent/environment/http.ts";
import { systemClock } from "../core/clock.ts";
import { parseScenario } from "../data/scenario.ts";
import { withFolder } from "./folder.ts";

const GUIDE = await Deno.readTextFile(new URL("../docs/guides/environments.md", import.meta.url));

/** A server of the guide on a free port, which it prints. */
interface GuideServer {
  language: "python" | "ts";
  command: string;
  args: readonly string[];
  /** Changes its last statement. */
  announced: (code: string) => string;
}

const SERVERS: readonly GuideServer[] = [
  {
    language: "python",
    command: "python3",
    args: [],
    announced: (code) =>
      code.replace(
        /^ThreadingHTTPServer\(\("127\.0\.0\.1", 8765\), Handler\)\.serve_forever\(\)$/m,
        'server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)\nprint(server.server_port, flush=True)\nserver.serve_forever()',
      ),
  },
  {
    language: "ts",
    command: Deno.execPath(),
    args: ["run", "--quiet", "--allow-net=127.0.0.1"],
    announced: (code) => code.replace("port: 8765", "port: 0, onListen: ({ port }) => console.log(port)"),
  },
];

async function canRun(command: string): Promise<boolean> {
  const run = new Deno.Command(command, { args: ["--version"], stdout: "null", stderr: "null" });
  return (await run.output().catch(() => null))?.success ?? false;
}

const never = new AbortController().signal;
const SCENARIO = parseScenario({ id: "s", user: "Guess." }, { path: "x", line: 1 });

/** Plays a game to its end. */
async function play(base_url: string): Promise<void> {
  const environments = httpEnvironments({ base_url, limits: { exec_timeout_secs: 60 }, clock: systemClock });
  const { tools } = await environments.catalog(SCENARIO, never);
  assert.deepEqual(tools, [{
    name: "guess",
    description: "Guess the number.",
    parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
  }]);
  const [one, two] = await Promise.all(
    [1, 2].map(() => environments.open(SCENARIO, { seed: 5, signal: never })),
  );
  assert.equal(one!.observation, "The number is from 1 to 20.");
  assert.deepEqual(await one!.state(never), await two!.state(never), "one seed gives one number");
  await two!.close();
  assert.deepEqual(await two!.state(never), { value: null });
  const guess = (n: number) => one!.call({ id: "call_0_0", name: "guess", arguments: { n } }, never);
  let low = 1, high = 20;
  while (true) {
    const n = Math.floor((low + high) / 2), { result, reward, done } = await guess(n);
    assert.deepEqual([reward, done], result === "right" ? [1, true] : [0, false]);
    if (done) break;
    if (result === "too low") low = n + 1;
    else high = n - 1;
    assert.ok(low <= high, "the hints are right");
  }
  await one!.close();
  await environments.close();
}

for (const { language, command, args, announced } of SERVERS) {
  const is_there = await canRun(command);
  Deno.test({
    name: `the guide's server in ${language} works${is_there ? "" : ` (skipped: needs ${command})`}`,
    ignore: !is_there,
    fn: () =>
      withFolder(async (folder) => {
        const [, code] = new RegExp(`^\`\`\`${language}\n(.*?)^\`\`\`$`, "ms").exec(GUIDE)!;
        assert.ok(code!.split("\n").length <= 40, "it is short");
        const changed = announced(code!);
        assert.notEqual(changed, code);
        const path = join(folder, `server.${language}`);
        await Deno.writeTextFile(path, changed);
        const server = new Deno.Command(command, { args: [...args, path], stdout: "piped", stderr: "null" })
          .spawn();
        try {
          const reader = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
          const { value: port } = await reader.read();
          await play(`http://127.0.0.1:${port!.trim()}`);
          await reader.cancel();
        } finally {
          server.kill();
          await server.status;
        }
      }),
  });
}
