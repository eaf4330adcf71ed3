/**
 * Lets runs use an OpenEnv environment as an environment of `type = "http"`: the routes of an environment server on this
 * side, a session of OpenEnv's WebSocket for each attempt on the other.
 *
 *   deno run --allow-net examples/openenv_bridge.ts http://127.0.0.1:8000
 *
 * A second argument is the port of this side, by default 8766. OpenEnv's server must allow one session more than there
 * are attempts at once (`max_concurrent_envs`). docs/guides/environments.md says how the two map.
 *
 * @source https://github.com/meta-pytorch/OpenEnv: the messages of `/ws` in src/openenv/core/env_server/types.py and
 * serialization.py, `list_tools` and `call_tool` in mcp_types.py (RFC 003), `GET /schema` in http_server.py.
 */

const PORT = 8766;

/** An answer of OpenEnv to `reset` and `step`. */
interface Observed {
  // deno-lint-ignore no-explicit-any -- any JSON
  observation: any;
  reward?: number | boolean | null;
  done?: boolean;
}

/** An answer of the type `error`. */
class SessionError extends Error {
  constructor(message: string, readonly code: string) {
    super(message);
  }
}

/** A session: one environment behind one socket, which answers one message at a time. */
class Session {
  #waiting: PromiseWithResolvers<unknown> | null = null;

  private constructor(readonly socket: WebSocket) {
    socket.onmessage = ({ data }) => {
      const { type, data: answer } = JSON.parse(data);
      if (type !== "error") this.#waiting?.resolve(answer);
      else this.#waiting?.reject(new SessionError(answer.message ?? "no reason given", answer.code ?? ""));
    };
    socket.onclose = () => this.#waiting?.reject(new Error("OpenEnv closed the session"));
  }

  static async open(openenv: URL): Promise<Session> {
    const url = new URL(`${openenv.pathname.replace(/\/+$/, "")}/ws`, openenv);
    url.protocol = openenv.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new Error(`Cannot connect to OpenEnv at ${openenv.origin}`));
    });
    socket.onerror = null;
    return new Session(socket);
  }

  async ask<T = Observed>(message: object): Promise<T> {
    if (this.socket.readyState !== WebSocket.OPEN) throw new Error("OpenEnv closed the session");
    this.#waiting = Promise.withResolvers();
    this.socket.send(JSON.stringify(message));
    return await this.#waiting.promise as T;
  }

  close(): void {
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify({ type: "close" }));
    this.socket.close();
  }
}

/** Codes of errors that are about the call: the model sees them. */
const CALL_ERRORS = ["VALIDATION_ERROR", "EXECUTION_ERROR"];

/** The name of the only tool of an environment without MCP tools: its parameters are the environment's action. */
const ACTION_TOOL = "act";

/** Answers the routes of an environment server by the sessions of an OpenEnv server. */
export class OpenEnvBridge {
  readonly #openenv: URL;
  readonly #sessions = new Map<string, Session>();
  #has_tools = true;

  /** @param address OpenEnv's; it may have a path. */
  constructor(address: string) {
    this.#openenv = new URL(address);
  }

  async answer(request: Request): Promise<Response> {
    try {
      const [, route, id] = new URL(request.url).pathname.split("/");
      if (route === "tools") return await this.#tools();
      const body = request.method === "POST" ? await request.json() : {};
      if (route === "reset") return await this.#reset(body);
      const session = this.#sessions.get(id ?? body.env_id);
      if (!session) return new Response("no such environment", { status: 404 });
      if (route === "step") return await this.#step(session, body.call);
      if (route === "state") return Response.json(await session.ask({ type: "state" }));
      this.#sessions.delete(body.env_id);
      session.close();
      return new Response(null, { status: 204 });
    } catch (error) {
      return new Response(String(error), { status: 502 });
    }
  }

  /** Tools of MCP, or one tool that takes the environment's own action. */
  async #tools(): Promise<Response> {
    const listed = await this.#listTools();
    this.#has_tools = Array.isArray(listed);
    if (listed) {
      const tools = listed.map(({ name, description, input_schema }) => (
        { name, description, inputSchema: input_schema }
      ));
      return Response.json({ tools });
    }
    const schema = await fetch(
      new URL(`${this.#openenv.pathname.replace(/\/+$/, "")}/schema`, this.#openenv),
    );
    const { action } = await schema.json();
    delete action.properties?.metadata;
    const description = action.description ?? "Act in the environment.";
    return Response.json({ tools: [{ name: ACTION_TOOL, description, inputSchema: action }] });
  }

  /** Null: the environment has no tools of MCP. */
  async #listTools(): Promise<{ name: string; description: string; input_schema: object }[] | null> {
    const session = await Session.open(this.#openenv);
    try {
      const { observation } = await session.ask({ type: "step", data: { type: "list_tools" } });
      return observation.tools ?? null;
    } catch (error) {
      if (error instanceof SessionError && CALL_ERRORS.includes(error.code)) return null;
      throw error;
    } finally {
      session.close();
    }
  }

  /** `metadata.openenv` of a scenario has further parameters of OpenEnv's reset. */
  async #reset({ scenario, seed }: { scenario: { metadata: { openenv?: object } }; seed: number }) {
    const session = await Session.open(this.#openenv);
    try {
      const data = { seed, ...scenario.metadata.openenv };
      const { observation } = await session.ask({ type: "reset", data });
      const env_id = crypto.randomUUID();
      this.#sessions.set(env_id, session);
      const is_empty = Object.values(observation ?? {}).every((value) => value === null);
      return Response.json({ env_id, observation: is_empty ? null : observation });
    } catch (error) {
      session.close();
      throw error;
    }
  }

  async #step(session: Session, { name: tool_name, arguments: given }: { name: string; arguments: object }) {
    const has_tools = this.#has_tools;
    const data = has_tools ? { type: "call_tool", tool_name, arguments: given } : given;
    try {
      const { observation, reward = null, done = false } = await session.ask({ type: "step", data });
      const result = has_tools ? toolResult(observation) : observation;
      return Response.json({ result, reward: reward === null ? null : Number(reward), done });
    } catch (error) {
      if (!(error instanceof SessionError) || !CALL_ERRORS.includes(error.code)) throw error;
      return Response.json({ result: `error: ${error.message}`, reward: null, done: false });
    }
  }
}

/** What a tool of MCP gave: its error, the data of its result, or the result. */
// deno-lint-ignore no-explicit-any -- any JSON
function toolResult({ result, error }: any): unknown {
  if (error) return `error: ${error.message}`;
  return typeof result === "object" && result !== null && "data" in result ? result.data : result;
}

if (import.meta.main) {
  const [address, port = `${PORT}`] = Deno.args;
  if (address === undefined) throw new Error("Cannot start: give the address of an OpenEnv server");
  const bridge = new OpenEnvBridge(address);
  Deno.serve({ hostname: "127.0.0.1", port: Number(port) }, (request) => bridge.answer(request));
}
