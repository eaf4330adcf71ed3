import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { App } from "../app.ts";
import { testApp, testRequest } from "../app_testing.ts";
import { metrics, runsOf, storedRun, writeEvents } from "../runs_testing.ts";

const TOKEN = "canary-token";
const bearer = { authorization: `Bearer ${TOKEN}` };

type Tested = ReturnType<typeof testApp>;

/** @param body Gets a server with a token and two runs that have artefacts. */
async function withServer(body: (server: Tested, other: Tested) => Promise<void>): Promise<void> {
  await withFolder(async (root) => {
    const runs = [storedRun(root, "run_A"), storedRun(root, "run_B")];
    for (const { directory } of runs) {
      await writeEvents(directory!, [metrics(1, { a: 1 })]);
      await Deno.writeTextFile(`${directory}/log.txt`, "one line\n");
    }
    const start = () => testApp({ toml: `auth_token = "${TOKEN}"`, runs: runsOf(...runs) });
    await body(start(), start());
  });
}

async function linkTo(server: Tested, path: string): Promise<{ url: string; expires_at: string }> {
  const { status, json } = await server.send(`${path}/link`, { method: "POST", headers: bearer });
  assert.equal(status, 200);
  return json;
}

const LOG = "/v1/runs/run_A/artifacts/log";

Deno.test("a link stands for the token at its artefact, for GET and HEAD and ranges", async () => {
  await withServer(async (server) => {
    assert.equal((await server.send(LOG)).status, 401);
    const { url, expires_at } = await linkTo(server, LOG);
    assert.match(url, /^\/v1\/runs\/run_A\/artifacts\/log\?exp=1767225660&sig=[A-Za-z0-9_-]{43}$/);
    assert.equal(expires_at, "2026-01-01T00:01:00.000Z");
    assert.equal((await server.send(url)).body, "one line\n");
    const head = await server.send(url, { method: "HEAD" });
    assert.deepEqual([head.status, head.headers["content-length"], head.body], [200, "9", ""]);
    const part = await server.send(url, { headers: { range: "bytes=0-2" } });
    assert.deepEqual([part.status, part.body], [206, "one"]);
    // Again, inside of its time.
    assert.equal((await server.send(url)).status, 200);
    assert.ok(!url.includes(TOKEN));
  });
});

Deno.test("a link ends after 60 seconds", async () => {
  await withServer(async (server) => {
    const { url } = await linkTo(server, LOG);
    await server.clock.advance(59_000);
    assert.equal((await server.send(url)).status, 200);
    await server.clock.advance(999);
    assert.equal((await server.send(url)).status, 200);
    await server.clock.advance(1);
    assert.equal((await server.send(url)).status, 401);
    await server.clock.advance(1000);
    assert.equal((await server.send(url)).status, 401);
    // In the middle of a second: at least 59 seconds, and never more than 60.
    await server.clock.advance(999);
    const late = (await linkTo(server, LOG)).url;
    await server.clock.advance(59_000);
    assert.equal((await server.send(late)).status, 200);
    await server.clock.advance(1000);
    assert.equal((await server.send(late)).status, 401);
  });
});

Deno.test("a link of another server, also of the same one before a restart, is none", async () => {
  await withServer(async (server, other) => {
    const { url } = await linkTo(server, LOG);
    assert.equal((await other.send(url)).status, 401);
  });
});

Deno.test("a link with any bit changed is none", async () => {
  await withServer(async (server) => {
    const { url } = await linkTo(server, LOG);
    // Letters, digits and dashes of the run, the name, the expiry and the signature.
    const start = url.indexOf("run_A");
    for (let at = start; at < url.length; at++) {
      for (let bit = 0; bit < 7; bit++) {
        const changed = String.fromCharCode(url.charCodeAt(at) ^ 1 << bit);
        if (!/[A-Za-z0-9_.~-]/.test(changed)) continue;
        const target = url.slice(0, at) + changed + url.slice(at + 1);
        const { status } = await server.send(target);
        assert.ok(status === 401, `${target} at ${at}: ${status}`);
      }
    }
  });
});

Deno.test("a link is for exactly one artefact, as it is written", async () => {
  await withServer(async (server) => {
    const { url } = await linkTo(server, LOG), query = url.slice(url.indexOf("?"));
    const targets = [
      `/v1/runs/run_A/artifacts/events${query}`,
      `/v1/runs/run_B/artifacts/log${query}`,
      `/v1/runs/run_A/artifacts/%6cog${query}`,
      `/v1/runs/run_A/artifacts/LOG${query}`,
      `/v1/runs/run_A/artifacts/log/${query}`,
      `/v1/runs/run_A/artifacts${query}`,
      `/v1/runs/run_A/metrics${query}`,
      `/v1/health${query}`,
      `${url}&exp=9999999999`,
      `${url}&sig=x`,
      `${LOG}?${query.slice(1).split("&")[1]}`,
      `${LOG}?${query.slice(1).split("&")[0]}`,
      `${LOG}?exp=&sig=`,
      `${url}=`,
      url.replace("exp=", "exp=0"),
      url.replace("exp=", "exp=%20"),
    ];
    for (const target of targets) {
      const { status, json } = await server.send(target);
      assert.deepEqual([status, json.errors[0].code], [401, "unauthorized"], target);
    }
    for (const method of ["POST", "DELETE", "OPTIONS", "PUT"]) {
      assert.equal((await server.send(url, { method })).status, 401, method);
    }
    assert.equal((await server.send(`${LOG}/link${query}`, { method: "POST" })).status, 401);
    // The Host check comes first.
    assert.equal((await server.send(url, { hosts: ["evil.example"] })).status, 401);
  });
});

Deno.test("a bad link does no harm beside the token, and without a configured token", async () => {
  await withServer(async (server) => {
    assert.equal((await server.send(`${LOG}?exp=1&sig=x`, { headers: bearer })).status, 200);
    assert.equal((await server.send(`/v1/runs/run_A/metrics?exp=1&sig=x`, { headers: bearer })).status, 200);
  });
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A");
    await writeEvents(run.directory!, [metrics(1, { a: 1 })]);
    const { send } = testApp({ runs: runsOf(run) });
    assert.equal((await send("/v1/runs/run_A/artifacts/events?exp=1&sig=x")).status, 200);
  });
});

Deno.test("a link needs an artefact that is there", async () => {
  await withServer(async (server) => {
    for (
      const path of [
        "/v1/runs/run_A/artifacts/adapter",
        "/v1/runs/run_A/artifacts/x",
        "/v1/runs/x/artifacts/log",
      ]
    ) {
      const { status, json } = await server.send(`${path}/link`, { method: "POST", headers: bearer });
      assert.deepEqual([status, json.errors[0].code], [404, "not_found"]);
    }
  });
});

Deno.test("the id of a run is escaped in its link", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "run ü");
    await writeEvents(run.directory!, [metrics(1, { a: 1 })]);
    const server = testApp({ toml: `auth_token = "${TOKEN}"`, runs: runsOf(run) });
    const { url } = await linkTo(server, "/v1/runs/run%20%c3%bc/artifacts/events");
    assert.match(url, /^\/v1\/runs\/run%20%C3%BC\/artifacts\/events\?/);
    assert.equal((await server.send(url)).status, 200);
  });
});

Deno.test("jumps of the wall clock neither end a link nor keep it alive", async () => {
  await withServer(async (server) => {
    const hour_ms = 3_600_000, { url, expires_at } = await linkTo(server, LOG);
    for (const jump of [hour_ms, -2 * hour_ms, hour_ms]) {
      server.clock.jump(jump);
      assert.equal((await server.send(url)).status, 200);
    }
    server.clock.jump(hour_ms);
    // A link that is made after a jump lives as long, and its time goes on from that of the server's start.
    assert.equal((await linkTo(server, LOG)).expires_at, expires_at);
    server.clock.jump(-2 * hour_ms);
    await server.clock.advance(59_999);
    assert.equal((await server.send(url)).status, 200);
    await server.clock.advance(1);
    assert.equal((await server.send(url)).status, 401);
  });
});

Deno.test("a download over the app keeps its declared length", async () => {
  await withServer(async ({ app }) => {
    assert.ok(app instanceof App);
    const answer = await app.handle(...testRequest(LOG, { headers: bearer }));
    assert.equal(answer.headers.get("content-length"), String((await answer.bytes()).length));
  });
});
