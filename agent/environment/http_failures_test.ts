/** Each route of an environment server that fails in each way: what it costs the attempt, and whose failure it is. */

import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { environmentGrader } from "../grading/environment_grader.ts";
import type { Grader } from "../grading/grader.ts";
import { attributionOf, breakReasons } from "../rollout/lost.ts";
import { callText, rolloutGroups, testRollout, turnTokens } from "../rollout/rollout_fake.ts";
import type { Group } from "../trajectory/group.ts";
import { httpEnvironments } from "./http.ts";
import { MAX_ANSWER_BYTES } from "./http_exchange.ts";
import { fakeServer, type GotRequest, hang, mcpTools, type ServerRoute } from "./http_server_fake.ts";
import { MAX_SENDS, QUOTED_CHARS, QUOTED_TYPE_CHARS, RESEND_DELAY_MS } from "./http_server.ts";

/** A clock that stands still, except for the waits between repeated requests, which it notes. */
class ResendClock extends ManualClock {
  readonly resends: number[] = [];

  override sleep(delay_ms: number, signal?: AbortSignal): Promise<void> {
    const step = Math.log2(delay_ms / RESEND_DELAY_MS);
    if (!Number.isInteger(step) || step < 0 || step >= MAX_SENDS) return super.sleep(delay_ms, signal);
    this.resends.push(delay_ms);
    return Promise.resolve();
  }
}

const bytesOf = (text: string) => new TextEncoder().encode(text);
/** The answer that a route should have. */
function goodAnswer({ route, body }: GotRequest): unknown {
  switch (route) {
    case "/tools":
      return { tools: mcpTools };
    case "/reset":
      return { env_id: "env 0/é", observation: null };
    case "/step":
      return { result: "ok", reward: 1, done: body.call.name === "submit" };
    default:
      return {};
  }
}

const json = { "content-type": "application/json; charset=utf-8" };

/** 100 MB, of which a reader sees only what it takes. */
function flood(counted: { bytes: number }, length?: number): Response {
  const part = new Uint8Array(1 << 16).fill(32);
  const body = new ReadableStream({
    pull(controller) {
      counted.bytes += part.length;
      controller.enqueue(part);
      if (counted.bytes >= 1e8) controller.close();
    },
  });
  return new Response(body, { headers: { ...json, ...(length && { "content-length": `${length}` }) } });
}

function dribble(text: string): Response {
  const bytes = bytesOf(text);
  let next = 0;
  const body = new ReadableStream({
    pull(controller) {
      if (next === bytes.length) return controller.close();
      controller.enqueue(bytes.slice(next, ++next));
    },
  });
  return new Response(body, { headers: json });
}

interface Broken {
  what: string;
  answer: (request: GotRequest) => Response;
  /** What the failure says; null: it is none. */
  says: RegExp | null;
  /** Whether a GET is sent again. */
  is_repeated?: true;
  /** Exceptions by route. */
  but?: Partial<Record<ServerRoute, RegExp | null>>;
}

const counted = { bytes: 0 };
const FAILURES: readonly Broken[] = [
  {
    what: "404",
    answer: () => new Response("nothing here", { status: 404 }),
    says: /was answered with 404: nothing here$/,
    but: { "/state": null },
  },
  {
    what: "500",
    answer: () => new Response("broke\n\u001b[1m", { status: 500 }),
    says: /answered with 500: broke⏎�\[1m$/,
  },
  {
    what: "500 with a long text",
    answer: () => new Response("x".repeat(1000), { status: 500 }),
    says: RegExp(`answered with 500: x{${QUOTED_CHARS}}$`),
  },
  {
    what: "503",
    answer: () => new Response(null, { status: 503 }),
    says: /answered with 503$/,
    is_repeated: true,
  },
  {
    what: "garbage",
    answer: () => new Response("{\xff", { headers: json }),
    says: /with something that is no JSON$/,
  },
  {
    what: "NaN",
    answer: () => new Response('{"reward": NaN}', { headers: json }),
    says: /with something that is no JSON$/,
  },
  {
    what: "JSON that is too deep",
    answer: () => new Response("[".repeat(1000) + "]".repeat(1000), { headers: json }),
    says: /with something that is no JSON$/,
  },
  {
    what: "HTML",
    answer: () => new Response("<html>", { headers: { "content-type": "text/html" } }),
    says: /with the Content-Type "text\/html", not application\/json$/,
  },
  {
    what: "a long Content-Type",
    answer: () => new Response("", { headers: { "content-type": "x".repeat(QUOTED_TYPE_CHARS + 1) } }),
    says: RegExp(`with the Content-Type "x{${QUOTED_TYPE_CHARS}}", not application/json$`),
  },
  {
    what: "wrong types",
    answer: () => Response.json([1]),
    says: /with a wrong field: /,
    but: { "/state": null },
  },
  {
    what: "100 MB of an announced length",
    answer: () => flood({ bytes: 0 }, 1e8),
    says: new RegExp(`answered with more than ${MAX_ANSWER_BYTES} bytes$`),
    is_repeated: true,
  },
  {
    what: "100 MB without a length",
    answer: () => flood(counted),
    says: new RegExp(`answered with more than ${MAX_ANSWER_BYTES} bytes$`),
    is_repeated: true,
  },
  {
    what: "a redirect",
    answer: () => new Response(null, { status: 307, headers: { location: "http://127.0.0.1:1/elsewhere" } }),
    says: /was answered with 307; redirects are not followed$/,
  },
  {
    what: "compression",
    answer: () => new Response("x", { headers: { ...json, "content-encoding": "gzip" } }),
    says: /with a Content-Encoding that was not asked for$/,
    is_repeated: true,
  },
  { what: "1 byte at a time", answer: (request) => dribble(JSON.stringify(goodAnswer(request))), says: null },
];

/** Grades by the final state, after an environment that gave no rewards. */
const stateGrader: Grader = {
  source: "reward",
  grades_evaluations: false,
  shared_measures: [],
  coverage: () => "all",
  inspect: async ({ environment }, signal) => ({ evidence: (await environment.state(signal)).value }),
  grade: ({ attempts }) =>
    Promise.resolve({
      grades: attempts.map(({ evidence }) => ({ reward: evidence === null ? 0.25 : 0.5 })),
      deterministic: true,
    }),
};

interface Attempted {
  server: ReturnType<typeof fakeServer>;
  clock: ResendClock;
  /** Rolls out one attempt that lists a folder and submits. */
  attempt(): Promise<Group>;
}

async function withServer(
  answers: Parameters<typeof fakeServer>[0],
  use: (attempted: Attempted) => Promise<void>,
  base_url?: string,
): Promise<void> {
  const server = fakeServer(answers), clock = new ResendClock();
  const limits = { exec_timeout_secs: 30 };
  const environment = httpEnvironments({ base_url: base_url ?? server.base_url, limits, clock });
  const turns = [callText("list_dir", { path: "" }), callText("submit")];
  const engine = new ScriptedEngine({ script: ({ turn }) => turnTokens(turns[turn]!) });
  const attempt = async () => {
    const graders = [environmentGrader(environment), stateGrader];
    const rollout = { ...testRollout(engine.client, { environment, graders }), clock };
    const [group] = await Array.fromAsync(rolloutGroups(rollout));
    return group!;
  };
  try {
    await use({ server, clock, attempt });
    deepEqual(engine.openSequences, []);
  } finally {
    await environment.close();
    await server.end();
  }
}

const closed = ({ requests }: Attempted["server"]) =>
  requests.filter(({ route }) => route === "/close").map(({ body }) => body.env_id);

/** What an attempt must be like when this route failed so. */
async function expectFailure(
  route: ServerRoute,
  says: RegExp | null,
  { server, attempt }: Attempted,
): Promise<void> {
  if (route === "/tools" && says) {
    await rejects(attempt(), (error: Error & { code?: string }) => {
      equal(error.code, "environment_failed");
      match(error.message, says);
      return true;
    });
    return;
  }
  const { members: [member] } = await attempt();
  const { stop_reason, status, failure, deterministic } = member!;
  if (says === null || route === "/close") {
    deepEqual([stop_reason, status, failure, deterministic], ["submitted", "kept", null, true]);
  } else {
    deepEqual([stop_reason, status, deterministic], ["environment_failed", "failed", false]);
    deepEqual([failure!.boundary, attributionOf(member!)], ["environment", "environment"]);
    ok(failure!.message.startsWith(`Cannot use the environment server http://127.0.0.1:`), failure!.message);
    match(failure!.message, says);
    const { calls } = member!.turns[0] ?? { calls: [] };
    deepEqual(calls[0]?.failure ?? null, route === "/step" ? failure : null);
  }
  deepEqual(closed(server), route === "/reset" && says ? [] : ["env 0/é"]);
}

const ROUTES: readonly ServerRoute[] = ["/tools", "/reset", "/step", "/state", "/close"];
const is_get = (route: ServerRoute) => route === "/tools" || route === "/state";

for (const { what, answer, says: usual, but = {}, is_repeated } of FAILURES) {
  for (const route of ROUTES) {
    const is_special = Object.hasOwn(but, route), says = is_special ? but[route]! : usual;
    Deno.test({
      name: `${what} of ${route} is ${
        says && route !== "/close" ? "the environment's failure" : "no failure"
      }`,
      sanitizeOps: true,
      sanitizeResources: true,
      fn: () => {
        return withServer({ [route]: answer }, async (attempted) => {
          await expectFailure(route, says, attempted);
          const { clock, server } = attempted;
          const sends = is_repeated && is_get(route) && says ? MAX_SENDS : 1;
          const calls = route === "/step" && says === null ? 2 : 1;
          const times = server.requests.filter((request) => request.route === route).length;
          equal(times, sends * calls);
          deepEqual(clock.resends, [200, 400].slice(0, sends - 1));
          equal(clock.sleeping, 0);
        });
      },
    });
  }
}

Deno.test("a body that is too long is not read to its end", () => {
  // Three GETs, and one request of each other route, of which each may fill the buffers between the two.
  ok(counted.bytes < 1e8, `${counted.bytes} bytes were made`);
});

for (const route of ROUTES) {
  Deno.test(`a hanging ${route} ends at its limit`, async () => {
    await withServer({
      "/step": () => Response.json({ result: "ok", reward: null, done: true }),
      [route]: hang,
    }, async (attempted) => {
      const { server, clock } = attempted;
      const says = /got no answer within 30 s; raise agent\.environment\.limits\.exec_timeout_secs/;
      const watched = (async () => {
        if (route === "/tools") await rejects(attempted.attempt(), says);
        else {
          const { members: [member] } = await attempted.attempt();
          const { stop_reason, failure, deterministic } = member!;
          if (route === "/close") {
            return deepEqual([stop_reason, failure, deterministic], ["completed", null, true]);
          }
          deepEqual([stop_reason, failure?.boundary, deterministic], [
            "environment_failed",
            "environment",
            false,
          ]);
          match(failure!.message, says);
        }
      })();
      await server.came(route);
      await clock.advance(30_000);
      await watched;
      if (route === "/step" || route === "/state") deepEqual(closed(server), ["env 0/é"]);
      if (route === "/reset") await clock.advance(30_000);
      equal(server.requests.filter((request) => request.route === route).length, 1, "never sent again");
    });
  });
}

/** A listener that answers each connection with these bytes and closes it. */
function rawServer(bytes: string) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const count = { connections: 0 };
  const serving = (async () => {
    for await (const connection of listener) {
      count.connections++;
      await connection.read(new Uint8Array(1 << 16));
      await connection.write(bytesOf(bytes));
      connection.close();
    }
  })();
  const { port } = listener.addr as Deno.NetAddr;
  const end = async () => {
    listener.close();
    await serving;
  };
  return { base_url: `http://127.0.0.1:${port}`, count, end };
}

const raw: [string, string, RegExp][] = [
  ["no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", /GET \/tools was answered with something that is no HTTP$/],
  ["nothing", "", /GET \/tools got no answer: the connection was closed$/],
  [
    "half an answer",
    "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{",
    /closed the connection within its answer$/,
  ],
];
for (const [what, bytes, says] of raw) {
  Deno.test(`a server that answers ${what} has failed, and a GET is sent again`, async () => {
    const { base_url, count, end } = rawServer(bytes);
    await withServer({}, async ({ attempt, clock }) => {
      await rejects(attempt(), says);
      deepEqual([count.connections, clock.resends], [MAX_SENDS, [200, 400]]);
    }, base_url);
    await end();
  });
}

Deno.test("where no server listens, every request may be sent again, and the advice is to start it", async () => {
  const { base_url, end } = rawServer("");
  await end();
  const clock = new ResendClock();
  const factory = httpEnvironments({ base_url, limits: { exec_timeout_secs: 30 }, clock });
  const { signal } = new AbortController();
  const refused =
    /was refused: no server listens there; start the server, or correct agent\.environment\.base_url$/;
  await rejects(factory.catalogs(signal), refused);
  const scenario = testRollout(new ScriptedEngine().client).scenarios[0]!;
  await rejects(factory.open(scenario, { seed: 1, signal }), refused);
  deepEqual(clock.resends, [200, 400, 200, 400]);
  await factory.close();
});

Deno.test("nothing is called after done, and the server's later failures do not matter", async () => {
  const answers = {
    "/step": () => Response.json({ result: "over", reward: 2, done: true }),
    "/state": () => Response.json("end"),
  };
  await withServer(answers, async ({ attempt, server }) => {
    const group = await attempt();
    const [member] = group.members;
    deepEqual([member!.stop_reason, member!.step_rewards, member!.total_reward], ["completed", [2], 2]);
    equal(group.graded_by, "environment");
    deepEqual(server.requests.map(({ route }) => route), ["/tools", "/reset", "/step", "/close"]);
  });
});

Deno.test("a group without a reward goes to the next grader, with the final state", async () => {
  for (const [status, reward] of [[200, 0.5], [404, 0.25]] as const) {
    await withServer({ "/state": () => Response.json("s", { status }) }, async ({ attempt }) => {
      const group = await attempt();
      deepEqual([group.graded_by, group.members[0]!.total_reward], ["reward", reward]);
    });
  }
});

Deno.test("a failed step counts as the environment's, and a failed state as that of the verification", async () => {
  const broken = () => new Response("broke", { status: 500 });
  for (
    const [route, reason] of [["/reset", "environment_failed"], ["/step", "environment_failed"], [
      "/state",
      "verify_failed",
    ]] as const
  ) {
    await withServer({ [route]: broken }, async ({ attempt }) => {
      deepEqual(breakReasons([await attempt()]), { [reason]: 1 });
    });
  }
});
