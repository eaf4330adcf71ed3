import assert from "node:assert/strict";
import { apiWith } from "./api_testing.ts";
import { planRun, type RunRequest, RunStarter } from "./run_request.ts";

/** An API whose answers are these in turn; an error breaks the connection. */
function answering(answers: (Response | Error)[]) {
  return apiWith(() => {
    const answer = answers.shift()!;
    return answer instanceof Error ? Promise.reject(answer) : answer;
  });
}

const keysOf = (requests: readonly Request[]) =>
  requests.map(({ headers }) => headers.get("idempotency-key"));
const recipe = (model: string): RunRequest => ({ recipe: { recipe: "sft", model } });
const run = (id: string) => Response.json({ id }, { status: 201 });

Deno.test("a start whose answer is lost has the same key when it is tried again, and makes one run", async () => {
  const lost = [new TypeError("gone"), new Response("busy", { status: 503 })];
  const { api, requests } = answering([...lost, run("run_1"), run("run_2"), run("run_3")]);
  let keys = 0;
  const starter = new RunStarter(api, () => `key-${++keys}`);
  await assert.rejects(starter.start(recipe("m")));
  await assert.rejects(starter.start(recipe("m")));
  assert.equal((await starter.start(recipe("m"))).id, "run_1");
  // After its run is known, the same request is another intent; so is a changed one.
  await starter.start(recipe("m"));
  await starter.start(recipe("n"));
  assert.deepEqual(keysOf(requests), ["key-1", "key-1", "key-1", "key-2", "key-3"]);
});

Deno.test("a changed request has a new key also after a failure", async () => {
  const { api, requests } = answering([new TypeError("gone"), run("run_1")]), starter = new RunStarter(api);
  await assert.rejects(starter.start(recipe("m")));
  await starter.start(recipe("n"));
  const [first, second] = keysOf(requests);
  assert.match(first!, /^[0-9a-f]{32}$/);
  assert.notEqual(first, second);
});

Deno.test("recipes are sent as JSON and configurations as TOML, measured when asked", async () => {
  const { api, requests } = answering([Response.json({}), Response.json({})]),
    { signal } = new AbortController();
  await planRun(api, recipe("m"), { signal, is_measured: false });
  await planRun(api, { toml: 'name = "a"' }, { signal, is_measured: true });
  assert.deepEqual(requests.map(({ url, headers }) => [url, headers.get("content-type")]), [
    ["http://h/v1/plan", "application/json"],
    ["http://h/v1/plan?calibrate=true", "application/toml"],
  ]);
  assert.deepEqual(await Promise.all(requests.map((request) => request.text())), [
    '{"recipe":"sft","model":"m"}',
    'name = "a"',
  ]);
});
