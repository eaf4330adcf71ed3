import assert from "node:assert/strict";
import { parseRunConfig } from "../../config/check/load.ts";
import { writeMetricsCsv } from "../../runs/record/metrics_csv.ts";
import { startTestRun } from "../../runs/run_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testApp, testRequest } from "../app_testing.ts";
import type { StoredRun } from "../sources/run_source.ts";
import { metrics, resumed, runsOf, storedRun, writeEvents } from "../runs_testing.ts";

const PATH = "/v1/runs/test/artifacts";

/** A real completed run, with a PEFT folder and an observe directory written by hand. */
async function realRun(root: string): Promise<StoredRun> {
  const run = await startTestRun({ root, newEngine: (refuse) => new ScriptedEngine({ refuse }).client });
  assert.equal(await run.ended, "completed");
  const stored = storedRun(root, "test", (config) => config.output.peft_dir = `${root}/runs/test/peft`);
  await writeFiles(stored.config!.output.peft_dir!, {
    "adapter_config.json": "{}\n",
    "adapter_model.safetensors": "weights",
    "stranger.txt": "mine",
  });
  await writeFiles(stored.trajectories!, {
    "index.jsonl": '{"update":1}\n{"upda',
    "update_000001.jsonl": "{}\n",
    ".svc-partial-update_000002.jsonl": "torn",
    "notes.md": "mine",
  });
  await Deno.writeTextFile(`${root}/secret.txt`, "secret");
  await Deno.symlink(`${root}/secret.txt`, `${stored.trajectories}/update_000003.jsonl`);
  return stored;
}

async function writeFiles(directory: string, files: Record<string, string>): Promise<void> {
  await Deno.mkdir(directory, { recursive: true });
  for (const [name, text] of Object.entries(files)) await Deno.writeTextFile(`${directory}/${name}`, text);
}

function server(run: StoredRun) {
  const { app, send } = testApp({ runs: runsOf(run) });
  const bytes = async (target: string, headers: Record<string, string> = {}) =>
    await (await app.handle(...testRequest(target, { headers }))).bytes();
  return { send, bytes };
}

/** The files of an archive as Python's `zipfile` reads them. */
async function unzip(bytes: Uint8Array<ArrayBuffer>, path: string): Promise<Record<string, string>> {
  await Deno.writeFile(path, bytes);
  const script = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    assert z.testzip() is None
    print(json.dumps({i.filename: z.read(i).decode() for i in z.infolist()}))`;
  const { stdout, stderr } = await new Deno.Command("python3", { args: ["-c", script, path] }).output();
  assert.equal(new TextDecoder().decode(stderr), "");
  return JSON.parse(new TextDecoder().decode(stdout));
}

const has_python = await new Deno.Command("python3", { args: ["-V"] }).output().then(() => true, () => false);

Deno.test("the inventory has what a run has, and each artefact has the length that it says", async () => {
  await withFolder(async (root) => {
    const run = await realRun(root), { send, bytes } = server(run);
    const { artifacts, next_cursor } = (await send(PATH)).json;
    assert.equal(next_cursor, null);
    assert.deepEqual(
      artifacts.map((
        { name, file_name, content_type }: Record<string, string>,
      ) => [name, file_name, content_type]),
      [
        ["adapter", "test-adapter.gguf", "application/octet-stream"],
        ["adapter_peft", "test-peft.zip", "application/zip"],
        ["config", "test-config.toml", "application/toml"],
        ["events", "test-events.jsonl", "application/x-ndjson"],
        ["metrics", "test-metrics.csv", "text/csv"],
        ["trajectories", "test-trajectories.zip", "application/zip"],
        ["log", "test-log.txt", "text/plain"],
      ],
    );
    for (const { name, size_bytes, content_type, file_name, modified_at } of artifacts) {
      assert.ok(Number.isFinite(Date.parse(modified_at)), name);
      const { status, headers } = await send(`${PATH}/${name}`);
      assert.equal(status, 200);
      assert.equal((await bytes(`${PATH}/${name}`)).length, size_bytes, name);
      assert.deepEqual(
        [
          headers["content-length"],
          headers["content-type"],
          headers["accept-ranges"],
          headers["content-disposition"],
        ],
        [
          String(size_bytes),
          content_type,
          "bytes",
          `attachment; filename="${file_name}"; filename*=UTF-8''${file_name}`,
        ],
      );
      assert.match(headers.etag!, /^"[\w.-]+"$/);
    }
    const page = (await send(`${PATH}?limit=5`)).json;
    const rest = (await send(`${PATH}?limit=5&cursor=${page.next_cursor}`)).json;
    assert.deepEqual([...page.artifacts, ...rest.artifacts], artifacts);
    assert.equal((await send(`${PATH}?cursor=!`)).json.errors[0].pointer, "/query/cursor");
  });
});

Deno.test("adapter, events and log are the run's files, and the metrics those of svc train's CSV", async () => {
  await withFolder(async (root) => {
    const run = await realRun(root), { bytes } = server(run);
    for (
      const [name, file] of [["adapter", "adapter.gguf"], ["events", "events.jsonl"], [
        "log",
        "log.txt",
      ]] as const
    ) {
      assert.deepEqual(await bytes(`${PATH}/${name}`), await Deno.readFile(`${run.directory}/${file}`), name);
    }
    await writeMetricsCsv(`${run.directory}/events.jsonl`, `${root}/metrics.csv`);
    const csv = await Deno.readFile(`${root}/metrics.csv`);
    assert.ok(csv.length > 1000);
    assert.deepEqual(await bytes(`${PATH}/metrics`), csv);
    for (const [start, end] of [[0, 10], [30, 60], [40, 2000], [csv.length - 5, csv.length]] as const) {
      const range = `bytes=${start}-${end - 1}`;
      assert.deepEqual(await bytes(`${PATH}/metrics`, { range }), csv.slice(start, end), range);
    }
  });
});

Deno.test("the configuration can be used again and has no path of the run", async () => {
  await withFolder(async (root) => {
    const run = await realRun(root);
    const { agent } = run.config!;
    agent!.judge = {
      ...agent!.judge!,
      id: "house",
      model: "secret-model",
      base_url: "https://judge.example",
    };
    agent!.mcp_servers = [{
      id: "search",
      command: ["/opt/secret"],
      allowed_tools: ["find"],
      required: true,
    }] as never;
    const { body } = await server(run).send(`${PATH}/config`);
    assert.ok(!body.includes(run.directory!) && !body.includes("secret"), body);
    assert.ok(body.includes("group_size = 4"));
    // The catalogue's entries are refused in files, and so left out of this build's text.
    assert.equal(parseRunConfig(body, { path: `${root}/again.toml` }).config.training.lr, 0.01);
  });
});

Deno.test({
  name: `folders are archives of their own complete files${
    has_python ? "" : " (skipped: there is no python3)"
  }`,
  ignore: !has_python,
  async fn() {
    await withFolder(async (root) => {
      const { bytes } = server(await realRun(root));
      assert.deepEqual(await unzip(await bytes(`${PATH}/adapter_peft`), `${root}/a.zip`), {
        "adapter_config.json": "{}\n",
        "adapter_model.safetensors": "weights",
      });
      const whole = await bytes(`${PATH}/trajectories`);
      assert.deepEqual(await unzip(whole, `${root}/b.zip`), {
        "index.jsonl": '{"update":1}\n',
        "update_000001.jsonl": "{}\n",
      });
      // A download in two parts.
      const half = await bytes(`${PATH}/trajectories`, { range: "bytes=0-49" });
      const rest = await bytes(`${PATH}/trajectories`, { range: "bytes=50-" });
      assert.deepEqual(new Uint8Array([...half, ...rest]), whole);
    });
  },
});

Deno.test("a range is 206 with its place, and anything else is 200 with the complete file", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test");
    await writeFiles(run.directory!, { "adapter.gguf": "0123456789" });
    const { send } = server(run),
      get = (headers: Record<string, string>) => send(`${PATH}/adapter`, { headers });
    const part = await get({ range: "bytes=2-4" });
    assert.deepEqual(
      [part.status, part.body, part.headers["content-range"], part.headers["content-length"]],
      [206, "234", "bytes 2-4/10", "3"],
    );
    for (const range of ["bytes=0-1,3-4", "bytes=10-", "bytes=5-2", "pages=1-2"]) {
      const all = await get({ range });
      assert.deepEqual(
        [all.status, all.body, all.headers["content-range"]],
        [200, "0123456789", undefined],
        range,
      );
    }
    const etag = part.headers.etag!;
    assert.equal((await get({ range: "bytes=2-4", "if-range": etag })).status, 206);
    assert.equal((await get({ range: "bytes=2-4", "if-range": '"other"' })).status, 200);
    assert.equal((await get({ range: "bytes=2-4", "if-range": `W/${etag}` })).status, 200);
    const known = await get({ range: "bytes=2-4", "if-none-match": etag });
    assert.deepEqual([known.status, known.body, known.headers.etag], [304, "", etag]);
    const head = await send(`${PATH}/adapter`, { method: "HEAD", headers: { range: "bytes=2-4" } });
    assert.deepEqual([head.status, head.headers["content-length"], head.headers.etag], [200, "10", etag]);
    await Deno.writeTextFile(`${run.directory}/new`, "9876543210");
    await Deno.rename(`${run.directory}/new`, `${run.directory}/adapter.gguf`);
    assert.equal((await get({ range: "bytes=2-4", "if-range": etag })).body, "9876543210");
    assert.equal((await get({ "if-none-match": etag })).status, 200);
  });
});

Deno.test("a log that grows is sent up to its last complete line, at the length of the beginning", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test"), path = `${run.directory}/events.jsonl`;
    await writeEvents(run.directory!, [metrics(1, { a: 1 })]);
    const { app } = testApp({ runs: runsOf(run) });
    const line = await Deno.readTextFile(path);
    await Deno.writeTextFile(path, '{"seq":2', { append: true });
    const ask = () => app.handle(...testRequest(`${PATH}/events`));
    const first = await ask();
    await Deno.writeTextFile(path, ',"kind":"log"}\n', { append: true });
    assert.equal(await first.text(), line);
    const second = await ask();
    assert.notEqual(second.headers.get("etag"), first.headers.get("etag"));
    assert.equal(await second.text(), `${line}{"seq":2,"kind":"log"}\n`);
    await Deno.writeTextFile(path, "a line without an end, longer than what is read at once".repeat(10_000));
    assert.equal(await (await ask()).text(), "");
  });
});

Deno.test("a file that is replaced while it is sent cuts the download off", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test");
    await writeFiles(run.directory!, { "adapter.gguf": "old" });
    const { app } = testApp({ runs: runsOf(run) });
    const answer = await app.handle(...testRequest(`${PATH}/adapter`));
    // Two files that are there at once are never one inode, whatever the clock of the file system.
    await writeFiles(run.directory!, { "other": "new" });
    await Deno.rename(`${run.directory}/other`, `${run.directory}/adapter.gguf`);
    await assert.rejects(answer.bytes());
    await writeEvents(run.directory!, [metrics(1, { a: 1 }), metrics(2, { a: 2 })]);
    const csv = await app.handle(...testRequest(`${PATH}/metrics`));
    await writeEvents(run.directory!, [resumed(1)]);
    await app.handle(...testRequest("/v1/runs/test/metrics"));
    await assert.rejects(csv.bytes(), /repeats updates/);
  });
});

Deno.test("only regular files are opened", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test", (config) => config.output.peft_dir = `${root}/runs/test/peft`);
    await Deno.mkdir(`${run.directory}/adapter.gguf`, { recursive: true });
    await writeFiles(run.directory!, { peft: "a file" });
    const { code } = await new Deno.Command("mkfifo", { args: [`${run.directory}/log.txt`] }).output();
    assert.equal(code, 0);
    const { artifacts } = (await server(run).send(PATH)).json;
    assert.deepEqual(artifacts.map(({ name }: { name: string }) => name), ["config"]);
  });
});

Deno.test("names outside of the inventory and artefacts that are not there are 404", async () => {
  await withFolder(async (root) => {
    const run = storedRun(root, "test"), { send } = server(run);
    const names = [
      "adapter",
      "run.json",
      "..%2frun.json",
      "%2e%2e",
      "__proto__",
      "constructor",
      "toString",
      "%00",
      "ADAPTER",
    ];
    for (const name of [...names, "a".repeat(5000), "log%0d%0aX: y"]) {
      const { status, json } = await send(`${PATH}/${name}`);
      assert.deepEqual([status, json.errors[0].code], [404, "not_found"], name);
    }
    const { json } = await send(`${PATH}/adapter`);
    assert.equal(json.errors[0].pointer, "/path/name");
    const view = {
      ...run,
      directory: null,
      config: null,
      shown_config: null,
      trajectories: null,
      checkpoints: null,
    };
    assert.deepEqual((await server(view).send(PATH)).json, { artifacts: [], next_cursor: null });
  });
});

Deno.test("any name of a run makes a file name that breaks no header", async () => {
  const names: [string, string, string][] = [
    ['a"b', "a_b", "a_b"],
    ["a\r\nX-Evil: 1", "a__X-Evil_ 1", "a%EF%BF%BD_X-Evil_%201"],
    ["../../etc/passwd", "_.._etc_passwd", "_.._etc_passwd"],
    ["\u202etxt.exe", "_txt.exe", "%EF%BF%BDtxt.exe"],
    ["naïve ☃'(x)*", "na_ve _'_x_*".replace(/['*]/g, "_"), "na%C3%AFve%20%E2%98%83%27%28x%29_"],
    ["", "run_A", "run_A"],
    ["..", "run_A", "run_A"],
    ["\ud800", "_", "%EF%BF%BD"],
    ["x".repeat(255), "x".repeat(100), "x".repeat(100)],
  ];
  await withFolder(async (root) => {
    for (const [name, ascii, exact] of names) {
      const run = storedRun(root, "run_A");
      run.record.name = name;
      const { headers } = await server(run).send("/v1/runs/run_A/artifacts/config");
      assert.equal(
        headers["content-disposition"],
        `attachment; filename="${ascii}-config.toml"; filename*=UTF-8''${exact}-config.toml`,
        JSON.stringify(name),
      );
    }
  });
});
