import assert from "node:assert/strict";
import { allPages, ApiProblem, Unreachable } from "./api.ts";
import { apiWith } from "./api_testing.ts";

Deno.test("a call fills path and query, sends the token, and stays under the page's prefix", async () => {
  const { api, session, requests } = apiWith(() => Response.json({ id: "a/b" }), "http://h/tools/svc/");
  session.logIn("secret", { remember: false });
  await api.call("GET /v1/runs/{id}", { params: { id: "a/b" } });
  await api.call("GET /v1/runs", { query: { limit: 3, name: "x y" } });
  assert.deepEqual(requests.map(({ url }) => url), [
    "http://h/tools/svc/v1/runs/a%2Fb",
    "http://h/tools/svc/v1/runs?limit=3&name=x+y",
  ]);
  assert.equal(requests[0]!.headers.get("authorization"), "Bearer secret");
});

Deno.test("a body is sent as JSON, and an answer without one is null", async () => {
  const { api, requests } = apiWith(() => new Response(null, { status: 204 }));
  const answer = await api.call("PATCH /v1/runs/{id}", { params: { id: "r" }, body: { name: "new" } });
  assert.equal(answer, null);
  assert.deepEqual([requests[0]!.method, await requests[0]!.json()], ["PATCH", { name: "new" }]);
});

Deno.test("a problem is thrown with everything that the server said; 401 asks for the token", async () => {
  const problem = {
    type: "https://svc/problems/unauthorized",
    ...{ title: "Unauthorized", status: 401, detail: "no", trace_id: "t1", errors: [], meta: {} },
  };
  const { api, session } = apiWith(() =>
    new Response(JSON.stringify(problem), {
      status: 401,
      headers: { "content-type": "application/problem+json" },
    })
  );
  const error = await api.call("GET /v1/runs", {}).catch((cause) => cause);
  assert.ok(error instanceof ApiProblem);
  assert.deepEqual([error.problem, error.kind, session.is_refused.value], [problem, "unauthorized", true]);
});

Deno.test("a token that is tried takes the place of the session's, and its refusal leaves the session", async () => {
  const { api, session, requests } = apiWith(() => new Response(null, { status: 401 }));
  session.logIn("known", { remember: false });
  const headers = { authorization: "Bearer tried" };
  await assert.rejects(api.call("GET /v1/capabilities", { headers }), ApiProblem);
  assert.equal(requests[0]!.headers.get("authorization"), "Bearer tried");
  assert.deepEqual([session.token.value, session.is_refused.value], ["known", false]);
});

Deno.test("an answer that is not the server's own is a problem with its status", async () => {
  const { api } = apiWith(() => new Response("<h1>Bad gateway</h1>", { status: 502 }));
  const error = await api.call("GET /v1/runs", {}).catch((cause) => cause);
  assert.ok(error instanceof ApiProblem);
  assert.deepEqual([error.problem.status, error.problem.errors], [502, []]);
});

Deno.test("no connection and a broken answer are told apart from problems", async () => {
  const away = apiWith(() => Promise.reject(new TypeError("refused")));
  await assert.rejects(away.api.call("GET /v1/runs", {}), Unreachable);
  const broken = apiWith(() => new Response('{"runs":', { headers: { "content-type": "application/json" } }));
  await assert.rejects(broken.api.call("GET /v1/runs", {}), Unreachable);
});

Deno.test("a list is followed to its last page", async () => {
  const { api, requests } = apiWith(({ url }) => {
    const is_last = new URL(url).searchParams.get("cursor") === "c1";
    return Response.json({ runs: [], next_cursor: is_last ? null : "c1" });
  });
  const pages = await allPages((query) => api.call("GET /v1/runs", { query }));
  assert.equal(pages.length, 2);
  assert.deepEqual(requests.map(({ url }) => url), [
    "http://h/v1/runs?limit=500",
    "http://h/v1/runs?limit=500&cursor=c1",
  ]);
});
