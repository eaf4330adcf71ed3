/** An environment behind the operator's own server (`type = "http"`). */

import { createHash } from "node:crypto";
import type { ToolCall } from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { CallAnswer, ToolCatalog } from "../tools/tool_host.ts";
import type {
  Environment,
  EnvironmentFactory,
  EnvironmentGrade,
  EnvironmentState,
  OpenOptions,
} from "./environment.ts";
import { type ResetAnswer, shownValue } from "./http_answers.ts";
import { EnvironmentServer } from "./http_server.ts";
import { unlessAborted } from "./unless_aborted.ts";

/** Keys of `[agent.environment]`, and a clock. */
export interface HttpEnvironmentOptions {
  /** The server's address; routes follow its path. */
  base_url: string;
  /** The environment variable with the server's key, a bearer token; absent: no key is sent. */
  api_key_env?: string | undefined;
  limits: { exec_timeout_secs: number };
  clock: Clock;
}

/** The name of a server's only catalogue, and the length of its version. */
const CATALOG_NAME = "http", VERSION_CHARS = 16;

/**
 * How much longer a call may take than its request, so that the environment and not the tool has failed when the server
 * gives no answer.
 */
export const CALL_MARGIN_MS = 1000;

/**
 * Environments of `type = "http"`. The server says which tools it has, once for a run; the version of its catalogue is a
 * hash of their list. A failure of the server is the environment's (`environment_failed`), and ends the attempt.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 * import { parseScenario } from "../../data/scenario.ts";
 *
 * const answers: Record<string, object> = {
 *   "/tools": { tools: [{ name: "guess", inputSchema: { type: "object", properties: { n: { type: "integer" } } } }] },
 *   "/reset": { env_id: "1", observation: null },
 *   "/step": { result: "right", reward: 1, done: true },
 *   "/close": {},
 * };
 * const serve = { hostname: "127.0.0.1", port: 0, onListen() {} };
 * await using server = Deno.serve(serve, ({ url }) => Response.json(answers[new URL(url).pathname]));
 * const environments = httpEnvironments({
 *   base_url: `http://127.0.0.1:${server.addr.port}`,
 *   limits: { exec_timeout_secs: 10 },
 *   clock: systemClock,
 * });
 * const { signal } = new AbortController();
 * const scenario = parseScenario({ id: "guess-1", user: "Guess a number." }, { path: "tasks.jsonl", line: 1 });
 * const environment = await environments.open(scenario, { signal, seed: 1 });
 * const answer = await environment.call({ id: "call_0", name: "guess", arguments: { n: 7 } }, signal);
 * assert.deepEqual(answer, { result: "right", reward: 1, done: true });
 * await environment.close();
 * await environments.close();
 * ```
 */
export function httpEnvironments(options: HttpEnvironmentOptions): EnvironmentFactory {
  const timeout_ms = options.limits.exec_timeout_secs * 1000;
  const server = new EnvironmentServer({ ...options, timeout_ms });
  let listed: Promise<ToolCatalog> | null = null;
  const list = (signal: AbortSignal) => {
    listed ??= catalogOf(server).catch((error) => {
      listed = null;
      throw error;
    });
    // The caller's signal ends only its own wait.
    return unlessAborted(listed, signal);
  };
  return {
    call_timeout_ms: timeout_ms + CALL_MARGIN_MS,
    grading_advice: "let the environment server return a reward from POST /step",
    catalog: (_, signal) => list(signal),
    catalogs: async (signal) => [{ ...await list(signal), is_default: true }],
    // Only the answers to its calls say whether the server grades an attempt.
    coverage: () => "some",
    open: (scenario, { seed, signal }) => openEnvironment(server, scenario, { seed, signal }),
    close: () => server.end(),
  };
}

async function catalogOf(server: EnvironmentServer): Promise<ToolCatalog> {
  const tools = await server.tools();
  const hash = createHash("sha256").update(JSON.stringify(tools)).digest("hex");
  return { name: CATALOG_NAME, version: hash.slice(0, VERSION_CHARS), tools };
}

async function openEnvironment(
  server: EnvironmentServer,
  { id, user, system, metadata }: Scenario,
  { seed, signal }: OpenOptions,
): Promise<Environment> {
  const scenario = { id, user, ...(system !== null && { system }), metadata };
  return new HttpEnvironment(server, await server.reset({ scenario, seed }, signal));
}

class HttpEnvironment implements Environment {
  readonly observation: unknown;
  readonly #server: EnvironmentServer;
  readonly #id: string;

  constructor(server: EnvironmentServer, { env_id, observation }: ResetAnswer) {
    this.#server = server;
    this.#id = env_id;
    this.observation = observation;
  }

  async call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer> {
    const { result, reward, done } = await this.#server.step(this.#id, call, signal);
    return { result: result === null ? null : shownValue(result), reward, done };
  }

  /** Rewards are those of the steps; there is no terminal one. */
  grade(): Promise<EnvironmentGrade> {
    return Promise.resolve({ reward: null, timed_out: false });
  }

  async state(signal: AbortSignal): Promise<EnvironmentState> {
    return { value: await this.#server.state(this.#id, signal) };
  }

  close(): Promise<void> {
    return this.#server.close(this.#id);
  }
}
