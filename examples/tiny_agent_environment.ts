/**
 * An environment server for examples/tiny_agent_http.toml: file tasks in memory, and a reward when an attempt submits.
 *
 *   deno run --allow-net=127.0.0.1 examples/tiny_agent_environment.ts
 *
 * docs/guides/environments.md explains the routes.
 */

const PORT = 8765;

/** An attempt. A task is solved when a file that the attempt wrote has the text `metadata.expected`. */
interface Attempt {
  files: Map<string, string>;
  written: Set<string>;
  expected: string;
}

const attempts = new Map<string, Attempt>();

const path = { type: "string" };
const takesPath = { type: "object", properties: { path }, required: ["path"] };
const takesText = { type: "object", properties: { path, content: path }, required: ["path", "content"] };
const tools = [
  { name: "read_file", description: "Read a file.", inputSchema: takesPath },
  { name: "write_file", description: "Write a file.", inputSchema: takesText },
  { name: "list_dir", description: "List a directory.", inputSchema: takesPath },
  { name: "submit", description: "Finish the task.", inputSchema: { type: "object", properties: {} } },
];

function reset(
  { scenario }: { scenario: { metadata: { expected: string; env: { files: Record<string, string> } } } },
) {
  const env_id = crypto.randomUUID();
  const { expected, env } = scenario.metadata;
  attempts.set(env_id, { files: new Map(Object.entries(env.files)), written: new Set(), expected });
  return { env_id, observation: null };
}

interface Call {
  name: string;
  arguments: { path: string; content: string };
}

function step({ env_id, call }: { env_id: string; call: Call }) {
  const { files, written, expected } = attempts.get(env_id)!, { path, content } = call.arguments;
  const answer = (result: string | null) => ({ result, reward: 0, done: false });
  switch (call.name) {
    case "read_file":
      return answer(files.get(path) ?? "error: no such file");
    case "list_dir":
      return answer([...files.keys()].sort().join("\n"));
    case "write_file":
      files.set(path, content);
      written.add(path);
      return answer("ok");
    default: {
      const is_solved = [...written].some((path) => files.get(path) === expected);
      return { result: null, reward: is_solved ? 1 : 0, done: true };
    }
  }
}

/** Answers a request. */
export async function answerRequest(request: Request): Promise<Response> {
  const [, route, id] = new URL(request.url).pathname.split("/");
  if (route === "tools") return Response.json({ tools });
  if (route === "state") {
    const attempt = attempts.get(id!);
    return attempt ? Response.json(Object.fromEntries(attempt.files)) : new Response(null, { status: 404 });
  }
  const body = await request.json();
  if (route === "reset") return Response.json(reset(body));
  if (route === "step") return Response.json(step(body));
  attempts.delete(body.env_id);
  return new Response(null, { status: 204 });
}

/** The number of attempts that were not closed. */
export const liveAttempts = (): number => attempts.size;

if (import.meta.main) Deno.serve({ hostname: "127.0.0.1", port: PORT }, answerRequest);
