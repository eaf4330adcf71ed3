/** A server that serves the models of scripted runs, and OpenAI's client of it. */

import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { stringify } from "smol-toml";
import { parseServerConfig } from "../config/server/load.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import type { RunConfig } from "../config/schema.ts";
import { inputFingerprints } from "../runs/directory/config_identity.ts";
import { MODEL_INPUTS } from "../runs/directory/same_inputs.ts";
import { type ScriptedRun, TestFleet, testRun } from "../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../runs/fleet/managed_run.ts";
import { fullPlan } from "../runs/plan/plan_serving.ts";
import { Serving, type ServingOptions } from "../runs/serving/serving.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { assertDeclared, type Given, type Sent, testApp, testRequest } from "../server/app_testing.ts";
import { listen } from "../server/listen/listen.ts";
import { ROUTES } from "../server/route_table.ts";

const PROGRAMS = {
  scripted: fileURLToPath(new URL("./scripted_serving.ts", import.meta.url)),
  real: fileURLToPath(new URL("../cli.ts", import.meta.url)),
};

/** What the scripted engine answers to prompts that hold a text; see the program. */
type Script = { prompt: string; text?: string; hang?: boolean; fails?: boolean }[];

/** Requests to an engine, as it logged them. */
// deno-lint-ignore no-explicit-any -- requests of every form
type EngineRequest = { method: string; request: any };

export interface ServingTest {
  send(target: string, given?: Given): Promise<Sent>;
  /** OpenAI's client; each answer is checked against its route's declaration. */
  openai: OpenAI;
  fleet: TestFleet;
  serving: Serving;
  /** A completed run with a checkpoint after each update. */
  completed(): Promise<ManagedRun>;
  /** A completed run with this model file. */
  run(model: string, more?: RunOptions): Promise<ManagedRun>;
  /** A run that trains until its update's file is in the gate's folder. */
  live(gate: string, more?: ScriptedRun): Promise<ManagedRun>;
  script(lines: Script): Promise<void>;
  /** Where the engine never answers; null: it answers. */
  hang(at: "load" | "close" | null): Promise<void>;
  /** What the engines were asked, since the beginning. */
  asked(): Promise<EngineRequest[]>;
  folder: string;
}

/** The configuration of the process of such a run: what the run scripts, and what conversations are rendered with. */
async function processConfig(scripted: ScriptedRun, model: string): Promise<string> {
  const config = {
    run: { algorithm: "agent_grpo" },
    model: { path: model },
    agent: {
      ...{
        // A resumed run needs its files.
        scenarios: fileURLToPath(new URL("../examples/tiny_agent_tasks.train.jsonl", import.meta.url)),
        updates: 2,
        environment: { type: "local", allow_unsandboxed: true, tools: { default: "files" } },
      },
    },
  };
  const identity = await inputFingerprints(config as unknown as RunConfig, MODEL_INPUTS).catch(() => ({}));
  return `# ${JSON.stringify({ ...scripted, identity })}\n${stringify(config)}`;
}

interface RunOptions {
  ctx?: number;
  /** The model's path as the client wrote it; absent: the same. */
  written?: string;
}

interface ServingTestOptions {
  idle_seconds?: number;
  clock?: Clock;
  record?: boolean;
  /** Whether models have a real engine. */
  program?: keyof typeof PROGRAMS;
  /** Plans the memory; absent: all fits. */
  plan?: ServingOptions["plan"];
}

/** OpenAI's client of a server at a port of its own, which has the same models. */
export async function withListener(
  { fleet, serving }: ServingTest,
  body: (openai: OpenAI) => Promise<void>,
): Promise<void> {
  const config = parseServerConfig('bind = "127.0.0.1:0"\nauth_token = "secret"\n', { path: "server.toml" });
  const probeDevices = () => Promise.resolve([]), log = () => {};
  const server = await listen(config, { probeDevices, log, fleet: fleet.fleet, serving });
  try {
    await body(new OpenAI({ apiKey: "secret", baseURL: `http://${server.address}/v1`, maxRetries: 0 }));
  } finally {
    await server.close();
  }
}

/** The configuration of a run that can be served. */
function servedConfig(model: string, ctx = 1024) {
  return {
    run: { algorithm: "agent_grpo" },
    model: { path: model, device: "auto", webgpu: "auto", compute: "auto", kv: "auto" },
    lora: { rank: 8 },
    training: { ctx, micro_batch_tokens: 512, loss_chunk_rows: 64 },
    agent: { updates: 2, template_variables: {} },
    checkpoint: {},
    evaluation: {},
  };
}

/** A test with a fleet and serving on; nothing is left running. */
export const withServing = (
  body: (test: ServingTest) => Promise<void>,
  { idle_seconds = 600, clock = systemClock, record = false, program = "scripted", plan }:
    ServingTestOptions = {},
) =>
  withFolder(async (folder) => {
    const conversations = `${folder}/conversations`;
    const fleet = await TestFleet.open({ folder, conversations });
    const runs_folder = `${folder}/runs`;
    const model = await Deno.realPath(await fixturePath("models/tiny-agent-f16.gguf"));
    const serving = new Serving({
      ...{ fleet: fleet.fleet, runs_folder, idle_seconds, clock },
      recordings: record ? conversations : null,
      plan: plan ?? ((demand) => Promise.resolve(fullPlan(demand))),
      svc: (args) => [Deno.execPath(), "run", "-A", "--no-check", PROGRAMS[program], ...args],
      log: (line) => void fleet.logged.push(line),
    });
    const app = testApp({ fleet: fleet.fleet, changes: fleet.relayed, serving });
    const create = async (scripted: ScriptedRun, path: string, { ctx, written = path }: RunOptions = {}) => {
      const { plan } = testRun(scripted), config = servedConfig(written, ctx);
      const text = await processConfig(scripted, path);
      return await fleet.create(scripted, {
        plan: { ...plan, config } as unknown as typeof plan,
        processConfig: () => text,
      });
    };
    const run = async (path: string, more?: RunOptions) => {
      const kept = await create({ updates: 2 }, path, more);
      await fleet.until(kept, "completed");
      await fleet.fleet.idle(kept.id);
      return kept;
    };
    try {
      await body({
        ...{ send: app.send, fleet, serving, folder, openai: clientOf(app.app), run },
        completed: () => run(model),
        async live(gate, more) {
          const kept = await create({ updates: 1, gate, ...more }, model);
          await fleet.until(kept, "running");
          return kept;
        },
        script: (lines) => Deno.writeTextFile(`${runs_folder}/script.json`, JSON.stringify(lines)),
        hang: (at) => Deno.writeTextFile(`${runs_folder}/hangs`, at ?? ""),
        async asked() {
          const text = await Deno.readTextFile(`${runs_folder}/engine.log`).catch(() => "");
          return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
        },
      });
    } finally {
      await fleet.close();
    }
  });

/** OpenAI's client of an app, without a port. */
function clientOf(app: ReturnType<typeof testApp>["app"]): OpenAI {
  return new OpenAI({
    apiKey: "none",
    baseURL: "http://localhost:8471/v1",
    maxRetries: 0,
    async fetch(input, init = {}) {
      const { pathname, search } = new URL(String(input)), target = pathname + search;
      const { method = "GET", headers, body, signal } = init;
      const given: Given = {
        method,
        headers: Object.fromEntries(new Headers(headers as HeadersInit)),
        ...(typeof body === "string" ? { body } : {}),
        ...(signal ? { signal } : {}),
      };
      const response = await app.handle(...testRequest(target, given));
      // Nobody gets an answer who has left.
      signal?.throwIfAborted();
      if (response.headers.get("content-type")?.startsWith("text/event-stream")) return response;
      const text = await response.clone().text();
      const sent: Sent = {
        status: response.status,
        headers: Object.fromEntries(response.headers),
        body: text,
        json: JSON.parse(text),
      };
      assertDeclared(sent, { method, target, type_base: "urn:svc:problems", routes: ROUTES });
      return response;
    },
  });
}

/** A conversation with one question. */
export const messages = [{ role: "user" as const, content: "Hi" }];

/** A POST of JSON. */
export const post = (body: unknown): Given => ({
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify(body),
});

/** The number of requests of a kind to the engines. */
export async function count({ asked }: ServingTest, method: string): Promise<number> {
  return (await asked()).filter((request) => request.method === method).length;
}
