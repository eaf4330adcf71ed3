/** A real server with the tiny model for tests in a browser, and runs on it. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Dataset, Run } from "../../api/types.ts";
import { buildWhenChanged } from "../../scripts/build_ui.ts";
import { fixturePath } from "../fixture.ts";
import { ServerProcess } from "../server_process.ts";
import { shownEvents } from "../shown_events.ts";
import type { Subjects } from "./pages.ts";

const EXAMPLES = fileURLToPath(new URL("../../examples/", import.meta.url));
const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));

/** What the server asks for. */
export const TOKEN = "the-token-of-the-tests";

/** Scenarios and held-out scenarios of a run: few, so that an update takes seconds. */
const SCENARIOS = 8, HELD_OUT = 2;

/** A free port, which the server keeps when it is started again. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

async function firstLines(path: string, count: number): Promise<string> {
  return (await Deno.readTextFile(path)).split("\n").slice(0, count).join("\n") + "\n";
}

/** A body of `POST /v1/runs`. */
type Recipe = Record<string, unknown> & { params?: Record<string, unknown> };

/** A server with a token, its data in a folder of its own, and an environment for the tasks of the tiny model. */
export class World implements AsyncDisposable {
  readonly url: string;
  readonly folder: string;
  server: ServerProcess;
  readonly #config: string;

  private constructor({ folder, config, server }: { folder: string; config: string; server: ServerProcess }) {
    [this.folder, this.#config, this.server, this.url] = [folder, config, server, server.url];
  }

  /** Starts it with the interface as its sources are. */
  static async start(): Promise<World> {
    await buildWhenChanged();
    const folder = await Deno.realPath(await Deno.makeTempDir({ prefix: "svc-browser-" }));
    const config = join(folder, "server.toml"), root = join(folder, "files");
    await Deno.mkdir(root);
    await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), join(root, "tiny-agent.gguf"));
    for (const [name, count] of [["train", SCENARIOS], ["heldout", HELD_OUT]] as const) {
      const text = await firstLines(join(EXAMPLES, `tiny_agent_tasks.${name}.jsonl`), count);
      await Deno.writeTextFile(join(root, `${name}.jsonl`), text);
    }
    await Deno.writeTextFile(
      config,
      [
        `bind = "127.0.0.1:${freePort()}"`,
        `auth_token = "${TOKEN}"`,
        `data_dir = "data"`,
        `path_roots = ["files"]`,
        `max_queued_runs = 8`,
        `[[environments]]`,
        `id = "workspace"`,
        `type = "local"`,
        `allow_unsandboxed = true`,
        `scenario_toolsets = ["files"]`,
      ].join("\n"),
    );
    return new World({ folder, config, server: await ServerProcess.start({ config }) });
  }

  /** A file that requests may name. */
  file(name: string): string {
    return join(this.folder, "files", name);
  }

  /** Ends the server, as a signal does. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<void> {
    await this.server.stop(signal);
  }

  /** Starts it again after {@link stop}, at the same address. */
  async startAgain(): Promise<void> {
    this.server = await ServerProcess.start({ config: this.#config });
  }

  /** Asks the API. @throws {AssertionError} When the answer is a problem. */
  async api<T>(method: string, path: string, body?: unknown): Promise<T> {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
    const init = body === undefined ? {} : { body: JSON.stringify(body) };
    const response = await fetch(`${this.url}${path}`, { method, headers, ...init });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${text}`);
    return text === "" ? null as T : JSON.parse(text);
  }

  /** Uploads a file as a dataset. @returns Its id. */
  async upload(name: string, path: string): Promise<string> {
    const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/x-ndjson" };
    const url = `${this.url}/v1/datasets?name=${encodeURIComponent(name)}`;
    const response = await fetch(url, { method: "POST", headers, body: await Deno.readTextFile(path) });
    assert.ok(response.ok, String(response.status));
    const { id }: Dataset = await response.json();
    return id;
  }

  /** Starts a run of the tiny agent on its tasks. */
  async startRun({ params = {}, ...recipe }: Recipe): Promise<Run> {
    return await this.api<Run>("POST", "/v1/runs", {
      ...{ recipe: "agent_grpo", model: this.file("tiny-agent.gguf"), scenarios: this.file("train.jsonl") },
      objective: { environment: "workspace" },
      params: {
        ...{ "training.ctx": 640, "training.lr": 3e-3, "evaluation.data": this.file("heldout.jsonl") },
        ...{ "agent.scenarios_per_update": 2, "agent.group_size": 3, "agent.max_turns": 4 },
        ...{ "agent.max_new_tokens_per_turn": 48, "agent.max_rollout_secs": 0 },
        ...params,
      },
      ...recipe,
    });
  }

  /** Resolves with the run when it has ended. */
  async ended({ id }: Run): Promise<Run> {
    const headers = { authorization: `Bearer ${TOKEN}` };
    for await (const { kind } of shownEvents(`${this.url}/v1/runs/${id}/events`, 0, headers)) {
      if (kind === "end") break;
    }
    return await this.api<Run>("GET", `/v1/runs/${id}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** A server in view mode, without a token. */
export class ViewServer implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly url: string;

  private constructor(child: Deno.ChildProcess, url: string) {
    [this.#child, this.url] = [child, url];
  }

  /** Shows an observe directory. */
  static async start(directory: string): Promise<ViewServer> {
    await buildWhenChanged();
    const args = ["run", "-A", "--no-check", MAIN, "view", directory];
    const child = new Deno.Command(Deno.execPath(), { args, stdout: "null", stderr: "piped" }).spawn();
    const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
    let text = "", url: string | undefined;
    while (!(url = / at (http:\S+?)\/? \(Ctrl-C/.exec(text)?.[1])) {
      const { value, done } = await reader.read();
      assert.ok(!done, `view mode ended: ${text}`);
      text += value;
    }
    reader.cancel();
    // Without a built interface it names a route.
    return new ViewServer(child, new URL(url).origin);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGTERM");
    await this.#child.status;
  }
}

/** Makes what pages are about: a run that has ended, a short one like it, and the dataset of their scenarios. */
export async function makeSubjects(
  world: World,
  recipe: Recipe,
): Promise<{ trained: Run; subjects: Subjects }> {
  const started = await world.startRun(recipe);
  const other = await world.startRun({ ...recipe, name: "a shorter one", budget: { updates: 1 } });
  const dataset = await world.upload(`tasks of ${started.name}`, world.file("train.jsonl"));
  const trained = await world.ended(started);
  await world.ended(other);
  const subjects = { run: trained.id, other: other.id, dataset, model: world.file("tiny-agent.gguf") };
  return { trained, subjects };
}

/** A server with what pages are about, for many tests of one file: made by the first that asks for it. */
export function trainedWorld(recipe: Recipe, prepare: (world: World) => Promise<void> = async () => {}) {
  const make = async () => {
    const world = await World.start();
    try {
      await prepare(world);
      return { world, ...await makeSubjects(world, { budget: { updates: 3 }, ...recipe }) };
    } catch (error) {
      await world[Symbol.asyncDispose]();
      throw error;
    }
  };
  let made: ReturnType<typeof make> | null = null;
  return {
    get: () => made ??= make(),
    /** After the last test. */
    close: async () => {
      // One that could not be made has failed its tests, and left nothing.
      await (await made?.catch(() => null))?.world[Symbol.asyncDispose]();
    },
  };
}
