import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { ARCHITECTURE_NAMES } from "../runs/models/architectures.ts";
import { writeObserved } from "../runs/views/observed_testing.ts";
import { withFolder } from "./folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

function svcServer(...args: string[]): Deno.Command {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", `${ROOT}main.ts`, ...args],
    cwd: ROOT,
    stdout: "piped",
    stderr: "piped",
  });
}

/** Reads until the text contains a match. */
async function readUntil(stream: ReadableStream<Uint8Array>, pattern: RegExp): Promise<RegExpExecArray> {
  let text = "";
  const reader = stream.pipeThrough(new TextDecoderStream() as unknown as TransformStream<Uint8Array, string>)
    .getReader();
  while (true) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The output ended without ${pattern}: ${text}`);
    text += value;
    const found = pattern.exec(text);
    if (!found) continue;
    // Later output must be read too, or the child blocks on a full pipe.
    (async () => {
      while (!(await reader.read()).done);
    })();
    return found;
  }
}

Deno.test({
  name: "svc-server listens, lists its devices, and exits with status 0 at SIGTERM",
  sanitizeResources: true,
  async fn() {
    const directory = await Deno.makeTempDir();
    await Deno.writeTextFile(`${directory}/server.toml`, `bind = "127.0.0.1:0"\nauth_token = "t"\n`);
    const child = svcServer(`${directory}/server.toml`).spawn();
    try {
      const [, url] = await readUntil(child.stderr, /listens at (http:\S+)/);
      const headers = { authorization: "Bearer t" };
      assert.equal((await (await fetch(`${url}/v1/health`, { headers })).json()).status, "ok");
      const { devices, architectures } = await (await fetch(`${url}/v1/capabilities`, { headers })).json();
      assert.deepEqual(architectures, ARCHITECTURE_NAMES);
      if (Deno.env.get("REQUIRE_GPU")) assert.equal(devices.length, 1);
      for (const device of devices) assert.ok(device.name && device.limits.maxBufferSize > 0);
    } finally {
      child.kill("SIGTERM");
    }
    assert.equal((await child.status).code, 0);
    await child.stdout.cancel();
    await Deno.remove(directory, { recursive: true });
  },
});

Deno.test("an invalid configuration or argument exits with status 2, with all problems", async () => {
  const directory = await Deno.makeTempDir();
  const path = `${directory}/server.toml`;
  await Deno.writeTextFile(path, `bind = "0.0.0.0:0"\nmax_queued_rums = 1\n`);
  const run = async (...args: string[]) => {
    const { code, stderr } = await svcServer(...args).output();
    return { code, text: new TextDecoder().decode(stderr) };
  };
  const wrong = await run(path);
  assert.equal(wrong.code, 2);
  assert.match(
    wrong.text,
    /server\.toml:2: max_queued_rums: is no known key; did you mean "max_queued_runs"\?/,
  );
  await Deno.writeTextFile(path, `bind = "0.0.0.0:0"\n`);
  assert.match((await run(path)).text, /server\.toml:1: bind: must be a loopback address without auth_token/);
  assert.equal((await run(`${directory}/missing.toml`)).code, 2);
  assert.equal((await run(path, path)).code, 2);
  for (const args of [[], [directory, directory], [directory, "--port", "65536"], [directory, "--opne"]]) {
    const { code, text } = await run("view", ...args);
    assert.deepEqual([code, text.includes("svc-server view <observe_dir> [--open] [--port <n>]")], [2, true]);
  }
  const absent = await run("view", `${directory}/absent`);
  assert.deepEqual([absent.code, /Cannot view .*absent: /.test(absent.text)], [2, true], absent.text);
  assert.match((await run("view", path)).text, /Cannot view .*server\.toml: it is no folder/);
  await Deno.writeTextFile(`${directory}/run.json`, "{}");
  assert.match(
    (await run("view", directory)).text,
    /it is the directory of a run; its trajectories are in .*trajectories$/m,
  );
  assert.equal((await run("openapi", path)).code, 2);
  await Deno.remove(directory, { recursive: true });
});

Deno.test("svc-server openapi prints the stored copy", async () => {
  const { code, stdout } = await svcServer("openapi").output();
  assert.equal(code, 0);
  assert.equal(new TextDecoder().decode(stdout), await Deno.readTextFile(`${ROOT}api/openapi.json`));
});

/** A program on the path that opens a URL: it writes its arguments to a file. */
async function fakeOpener(directory: string, name: string): Promise<void> {
  const path = `${directory}/${name}`;
  await Deno.writeTextFile(
    path,
    `#!/bin/sh\nprintf '%s\\n' "$@" > "${directory}/opened.partial"\nmv "${directory}/opened.partial" "${directory}/opened"\n`,
  );
  await Deno.chmod(path, 0o755);
}

Deno.test({
  name: `svc-server view shows a directory on loopback, opens the browser, and stops${
    Deno.build.os === "windows" ? " (skipped: the fake opener is a shell script)" : ""
  }`,
  ignore: Deno.build.os === "windows",
  sanitizeResources: true,
  fn: () =>
    withFolder(async (root) => {
      const directory = `${root}/trajectories`;
      await writeObserved(directory, { updates: 1 });
      await fakeOpener(root, Deno.build.os === "darwin" ? "open" : "xdg-open");
      using changes = Deno.watchFs(root);
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", `${ROOT}main.ts`, "view", directory, "--open"],
        env: { PATH: `${root}:${Deno.env.get("PATH")}` },
        stdout: "piped",
        stderr: "piped",
      }).spawn();
      try {
        const [, origin, path] = await readUntil(
          child.stderr,
          /shows .* at (http:\/\/127\.0\.0\.1:\d+)(\S*)/,
        ) as unknown as [
          string,
          string,
          string,
        ];
        const { runs: [run] } = await (await fetch(`${origin}/v1/runs`)).json();
        assert.deepEqual([run.id, run.name], ["run_view", "demo"]);
        const posted = await fetch(`${origin}/v1/runs`, { method: "POST", body: "{}" });
        assert.equal(posted.status, 405);
        await posted.body?.cancel();
        const foreign = await fetch(`${origin}/v1/runs`, { headers: { origin: "http://evil.example" } });
        assert.equal(foreign.status, 401);
        await foreign.body?.cancel();
        const { devices } = await (await fetch(`${origin}/v1/capabilities`)).json();
        assert.deepEqual(devices, []);
        const is_opened = () => Deno.stat(`${root}/opened`).then(() => true, () => false);
        while (!await is_opened()) await changes[Symbol.asyncIterator]().next();
        assert.equal(await Deno.readTextFile(`${root}/opened`), `${origin}${path}\n`);
      } finally {
        child.kill("SIGTERM");
      }
      assert.equal((await child.status).code, 0);
      await child.stdout.cancel();
    }),
});

Deno.test("without a browser view says which program is missing, and goes on", () =>
  withFolder(async (root) => {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", `${ROOT}main.ts`, "view", root, "--open"],
      env: { PATH: root },
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const [, url] = await readUntil(
      child.stderr,
      /Cannot open a browser with \S+: .*; open (http:\S+) yourself/,
    );
    await (await fetch(url!)).body?.cancel();
    child.kill("SIGTERM");
    assert.equal((await child.status).code, 0);
    await child.stdout.cancel();
  }));
