import assert from "node:assert/strict";
import { ApiProblem } from "./api.ts";
import { follow } from "./event_stream.ts";

function streamOf(text: string): Response {
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}

Deno.test("a stream that breaks is opened again after its last event, with growing waits", async () => {
  const abort = new AbortController(), opened: (string | null)[] = [], waits: number[] = [];
  const seen: string[] = [], live: boolean[] = [];
  const answers = [
    () => streamOf("id: 1\nevent: state\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: half"),
    () => Promise.reject(new TypeError("refused")),
    () => streamOf(": nothing yet\n\n"),
    () => streamOf("id: 3\ndata: c\n\n"),
  ];
  await follow({
    signal: abort.signal,
    open: async (last_id) => {
      opened.push(last_id);
      return await answers.shift()!();
    },
    onEvent: ({ id, name, data }) => seen.push(`${id} ${name} ${data}`),
    onLive: (is_live) => live.push(is_live),
    wait: (ms) => {
      waits.push(ms);
      if (answers.length === 0) abort.abort();
      return Promise.resolve();
    },
  });
  assert.deepEqual(seen, ["1 state a", "2 message b", "3 message c"]);
  assert.deepEqual(opened, [null, "2", "2", "2"]);
  assert.deepEqual(waits, [500, 1000, 2000, 500], "an event makes the next wait short again");
  assert.deepEqual(live, [true, false, false, true, false, true, false]);
});

Deno.test("a stream without further events ends it", async () => {
  const answers = [streamOf("id: 1\ndata: a\n\n"), new Response(null, { status: 204 })], seen: string[] = [];
  await follow({
    signal: new AbortController().signal,
    open: () => Promise.resolve(answers.shift()!),
    onEvent: ({ data }) => seen.push(data),
    wait: () => Promise.resolve(),
  });
  assert.deepEqual([seen, answers.length], [["a"], 0]);
});

Deno.test("a refusal ends it; a failure of the server does not", async () => {
  const problem = (status: number) =>
    new ApiProblem({
      type: "x/not-found",
      ...{ title: "", status, detail: "", trace_id: "", errors: [], meta: {} },
    });
  const errors = [problem(500), problem(404)];
  const refused = follow({
    signal: new AbortController().signal,
    open: () => Promise.reject(errors.shift()),
    onEvent: () => {},
    wait: () => Promise.resolve(),
  });
  await assert.rejects(refused, (error: unknown) => (error as ApiProblem).problem.status === 404);
  assert.equal(errors.length, 0);
});
