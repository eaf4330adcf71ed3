import assert from "node:assert/strict";
import { withFolder } from "../tests/folder.ts";
import { startDevServer } from "./dev_ui.ts";

/** Answers what it was asked; `/v1/stream` sends an event at once and the next one when it is told to. */
function startUpstream() {
  const { promise: goOn, resolve: goOnNow } = Promise.withResolvers<void>();
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname, search } = new URL(request.url);
    if (pathname !== "/v1/stream") {
      const { origin, authorization } = Object.fromEntries(request.headers);
      const asked = { path: pathname + search, method: request.method, origin, authorization };
      return Response.json({ ...asked, body: await request.text() }, { status: 201 });
    }
    const encode = (text: string) => new TextEncoder().encode(text);
    const body = new ReadableStream({
      async start(controller) {
        controller.enqueue(encode("data: 1\n\n"));
        await goOn;
        controller.enqueue(encode("data: 2\n\n"));
      },
      cancel: () => leave(),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  });
  return { server, url: `http://127.0.0.1:${server.addr.port}`, goOnNow, left };
}

Deno.test("the development server has the page, passes requests on, and streams as they come", async () => {
  await withFolder(async (folder) => {
    const { server: upstream, url, goOnNow, left } = startUpstream();
    await using _upstream = upstream;
    await using dev = startDevServer({ port: 0, upstream: url, folder });
    const own = `http://127.0.0.1:${dev.addr.port}`;
    const page = await fetch(own);
    assert.match(page.headers.get("content-security-policy")!, /script-src 'self'/);
    const script = /assets\/main-\w+\.js/.exec(await page.text())![0];
    assert.match(await (await fetch(`${own}/${script}`)).text(), /\/v1\/capabilities/);
    assert.equal((await fetch(`${own}/assets/none.js`)).status, 404);
    const built = `${folder}/index.html`, before = new Date(0);
    await Deno.writeTextFile(built, "older than the sources");
    await Deno.utime(built, before, before);
    await (await fetch(own)).body?.cancel();
    assert.match(await Deno.readTextFile(built), /assets\/main-/, "it is built again");

    const headers = { origin: own, authorization: "Bearer t" };
    const passed = await fetch(`${own}/v1/runs?a=1`, { method: "POST", headers, body: "b" });
    assert.equal(passed.status, 201);
    const asked = { path: "/v1/runs?a=1", method: "POST", origin: url, authorization: "Bearer t", body: "b" };
    assert.deepEqual(await passed.json(), asked);
    const foreign = await fetch(`${own}/v1/runs`, { headers: { origin: "http://other.example" } });
    assert.equal((await foreign.json()).origin, "http://other.example");

    const stream = await fetch(`${own}/v1/stream`);
    const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
    assert.equal((await reader.read()).value, "data: 1\n\n");
    goOnNow();
    assert.equal((await reader.read()).value, "data: 2\n\n");
    await reader.cancel();
    await left;
  });
});

Deno.test("the development server refuses names of other sites, and says that its server is away", async () => {
  await withFolder(async (folder) => {
    await using dev = startDevServer({ port: 0, upstream: "http://127.0.0.1:1", folder });
    const { port } = dev.addr;
    const away = await fetch(`http://127.0.0.1:${port}/v1/runs`);
    assert.equal(away.status, 502);
    assert.match(await away.text(), /There is no server at http:\/\/127\.0\.0\.1:1/);
    const connection = await Deno.connect({ hostname: "127.0.0.1", port });
    await connection.write(
      new TextEncoder().encode("GET / HTTP/1.1\r\nhost: other.example\r\nconnection: close\r\n\r\n"),
    );
    assert.match(await new Response(connection.readable).text(), /^HTTP\/1\.1 403 /);
  });
});
