/** The routes of datasets, with real jobs. */

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { ASSUMED_DEVICE } from "../../tests/assumed_device.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { JobPool } from "../../runs/jobs/job_pool.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import { type Given, refusal, testRequest } from "../app_testing.ts";
import { NUMBER_KEYS, PagedList } from "../http/page.ts";
import { type JobApp, withJobApp } from "../jobs_testing.ts";

const chat = (answer: string) =>
  JSON.stringify({ messages: [{ role: "user", content: "hi" }, { role: "assistant", content: answer }] });
const ROWS = `${chat("yes")}\r\n${chat("no")}`;

const upload = (body: BodyInit, more: Partial<Given> = {}): Given => ({
  method: "POST",
  body,
  headers: { "content-type": "application/x-ndjson" },
  ...more,
});

async function stored({ send }: JobApp, body: string, query = ""): Promise<string> {
  const { status, json } = await send(`/v1/datasets${query}`, upload(body));
  assert.equal(status, 201);
  return json.id;
}

/** Names in the folder of datasets. */
async function folders(data: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(`${data}/datasets`))).map(({ name }) => name);
}

Deno.test("an upload is stored once, and its card outlives a restart", () =>
  withJobApp(async (app) => {
    const first = await app.send("/v1/datasets?name=My%20rows&kind=sft", upload(ROWS));
    assert.equal(first.status, 201);
    const { id } = first.json;
    assert.match(id, /^ds_[0-9A-HJKMNP-TV-Z]{26}$/);
    assert.equal(first.headers.location, `/v1/datasets/${id}`);
    const card = {
      id,
      name: "My rows",
      kind: "sft",
      rows: 2,
      invalid_rows: 0,
      size_bytes: ROWS.length,
      sha256: createHash("sha256").update(ROWS).digest("hex"),
      fields: ["messages"],
      problems: [],
      created_at: "2026-01-01T00:00:00.000Z",
    };
    assert.deepEqual(first.json, card);
    const again = await app.send("/v1/datasets", upload(ROWS));
    assert.deepEqual([again.status, again.json, again.headers.location], [200, card, undefined]);
    const { send } = app.restart();
    assert.deepEqual((await send(`/v1/datasets/${id}`)).json, card);
    assert.deepEqual((await send("/v1/datasets")).json, { datasets: [card], next_cursor: null });
  }));

Deno.test("broken lines are stored with their problems", () =>
  withJobApp(async ({ send }) => {
    const { status, json } = await send("/v1/datasets", upload(`${chat("yes")}\n{"messages":3}\n{"a"`));
    assert.equal(status, 201);
    assert.deepEqual([json.kind, json.rows, json.invalid_rows], ["sft", 3, 2]);
    assert.deepEqual(json.problems.map(({ line }: { line: number }) => line), [2, 3]);
    assert.ok(json.problems.every(({ message }: { message: string }) => !message.includes("/")), "no paths");
  }));

Deno.test("lists are newest first, in pages", () =>
  withJobApp(async (app) => {
    for (const name of ["a", "b", "c"]) {
      await stored(app, chat(name), `?name=${name}`);
      await app.clock.advance(1);
    }
    const list = async (query: string) => (await app.send(`/v1/datasets${query}`)).json;
    const names = ({ datasets }: { datasets: { name: string }[] }) => datasets.map(({ name }) => name);
    const page = await list("?limit=2");
    assert.deepEqual(names(page), ["c", "b"]);
    const rest = await list(`?limit=2&cursor=${page.next_cursor}`);
    assert.deepEqual([names(rest), rest.next_cursor], [["a"], null]);
    assert.deepEqual(refusal(await app.send("/v1/datasets?cursor=%25&limit=0")), [
      422,
      "invalid-request",
      ["/query/limit out_of_range", "/query/cursor invalid_value"],
    ]);
  }));

Deno.test("an upload of another form is refused, and leaves nothing", () =>
  withJobApp(async ({ send, data }) => {
    const invalid = (code: string, pointer = "") => [422, "invalid-request", [`${pointer} ${code}`]];
    const post = async (body: BodyInit, query = "") =>
      refusal(await send(`/v1/datasets${query}`, upload(body)));
    const packed = await new Response(new Blob([ROWS]).stream().pipeThrough(new CompressionStream("gzip")))
      .bytes();
    assert.deepEqual(await post(packed), invalid("unsupported_format"));
    assert.deepEqual(await post(""), invalid("unsupported_format"));
    assert.deepEqual(await post("\r\n\n"), invalid("unsupported_format"));
    assert.deepEqual(await post(ROWS, "?kind=dpo"), invalid("invalid_value", "/query/kind"));
    assert.deepEqual(await post(ROWS, "?name="), invalid("invalid_value", "/query/name"));
    assert.deepEqual(await post(ROWS, "?nmae=x"), invalid("unknown_field", "/query/nmae"));
    const json = await send(
      "/v1/datasets",
      upload(ROWS, { headers: { "content-type": "application/json" } }),
    );
    assert.deepEqual(refusal(json), [415, "unsupported-media-type", [" unsupported_format"]]);
    const headers = { "content-type": "application/x-ndjson", "content-encoding": "gzip" };
    assert.equal((await send("/v1/datasets", upload(packed, { headers }))).status, 415);
    assert.deepEqual(await folders(data), []);
  }));

Deno.test("bytes that are stored as one kind are not stored as another", () =>
  withJobApp(async (app) => {
    await stored(app, ROWS);
    const again = await app.send("/v1/datasets?kind=preference", upload(ROWS));
    assert.deepEqual(refusal(again), [409, "conflict", ["/query/kind conflict"]]);
  }));

Deno.test("a file above the limit is refused, announced or not; one at the limit is stored", () =>
  withJobApp(async ({ send, data }) => {
    const row = (bytes: number) => `{"text":"${"x".repeat(bytes - 11)}"}`;
    assert.equal(row(1024).length, 1024);
    const announced = { "content-type": "application/x-ndjson", "content-length": "1025" };
    for (const more of [{}, { headers: announced }]) {
      const refused = await send("/v1/datasets", upload(row(1025), more));
      assert.deepEqual(refusal(refused), [413, "payload-too-large", [" out_of_range"]]);
    }
    assert.deepEqual(await folders(data).catch(() => []), []);
    assert.equal((await send("/v1/datasets", upload(row(1024)))).status, 201);
  }, { toml: "max_dataset_bytes = 1024" }));

Deno.test("a client that leaves in the middle of an upload leaves nothing", () =>
  withJobApp(async ({ app, data, logged }) => {
    const left = new AbortController();
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ === 3) left.abort();
        controller.enqueue(new TextEncoder().encode(`${chat("yes")}\n`));
      },
    }, { highWaterMark: 0 });
    await app.handle(...testRequest("/v1/datasets", upload(body, { signal: left.signal })));
    assert.deepEqual([await folders(data), logged], [[], []]);
  }));

Deno.test("a failure of the server's own disk is internal, and leaves nothing", () =>
  withJobApp(async ({ send, data, logged }) => {
    await Deno.mkdir(data, { recursive: true });
    await Deno.writeTextFile(`${data}/datasets`, "in the way");
    const { status, json } = await send("/v1/datasets", upload(ROWS));
    assert.deepEqual([status, json.errors], [500, []]);
    assert.equal(logged.length, 1);
  }));

Deno.test("a dataset is deleted unless a live run uses it", async () => {
  const used = new Set<string>();
  await withJobApp(async (app) => {
    const id = await stored(app, ROWS);
    used.add(id);
    const gone = () => app.send(`/v1/datasets/${id}`, { method: "DELETE" });
    assert.deepEqual(refusal(await gone()), [409, "conflict", [" conflict"]]);
    assert.equal((await app.send(`/v1/datasets/${id}`)).status, 200);
    used.clear();
    assert.equal((await gone()).status, 204);
    assert.deepEqual(refusal(await gone()), [404, "not-found", ["/path/id not_found"]]);
    assert.deepEqual(await folders(app.data), []);
  }, { isDatasetInUse: (id) => Promise.resolve(used.has(id)) });
});

Deno.test("a dataset is not deleted while a request that names it is planned", async () => {
  const pool = new JobPool({ entry_url: new URL("../../cli.ts", import.meta.url).href });
  let whilePlanned: () => Promise<void> = () => Promise.resolve();
  const run: JobRunner["run"] = async (name, request, signal) => {
    if (name === "plan_run") await whilePlanned();
    return await pool.run(name, request, signal);
  };
  try {
    await withJobApp(async (app) => {
      const id = await stored(app, ROWS), model = `${app.root}/model.gguf`;
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
      const gone = () => app.send(`/v1/datasets/${id}`, { method: "DELETE" });
      const body = { recipe: "sft", model, data: id, budget: { updates: 1 } };
      let seen: unknown;
      whilePlanned = async () => void (seen = refusal(await gone()));
      const headers = { "content-type": "application/json" };
      const { status } = await app.send("/v1/plan", { method: "POST", headers, body: JSON.stringify(body) });
      assert.deepEqual([status, seen], [200, [409, "conflict", [" conflict"]]]);
      assert.equal((await gone()).status, 204);
    }, { jobs: { run }, probeDevices: () => Promise.resolve([ASSUMED_DEVICE]) });
  } finally {
    await pool.close();
  }
});

Deno.test("a dataset that is deleted while a request reads it is not found", async () => {
  const { readTextFile } = Deno;
  let meanwhile = () => Promise.resolve();
  const pool = new JobPool({ entry_url: new URL("../../cli.ts", import.meta.url).href });
  const run: JobRunner["run"] = (...asked) => meanwhile().then(() => pool.run(...asked));
  const headers = { "content-type": "application/json" };
  try {
    await withJobApp(async (app) => {
      const model = `${app.root}/model.gguf`, body = JSON.stringify({ model });
      await Deno.copyFile(await fixturePath("models/tiny-agent-f16.gguf"), model);
      const requests = [["/preview"], [`/rows/1/tokens?model=${model}`], ["/tokenize", "POST"]] as const;
      for (const [path, method] of requests) {
        for (const at of ["index", "job"].slice(method ? 1 : 0)) {
          const id = await stored(app, ROWS);
          const remove = async () => {
            meanwhile = () => Promise.resolve();
            Deno.readTextFile = readTextFile;
            assert.equal((await app.send(`/v1/datasets/${id}`, { method: "DELETE" })).status, 204);
          };
          if (at === "job") meanwhile = remove;
          else Deno.readTextFile = (path) => remove().then(() => readTextFile(path));
          const answer = await app.send(`/v1/datasets/${id}${path}`, method ? { method, headers, body } : {});
          assert.deepEqual(refusal(answer), [404, "not-found", ["/path/id not_found"]], `${path} ${at}`);
        }
      }
    }, { jobs: { run } });
  } finally {
    Deno.readTextFile = readTextFile;
    await pool.close();
  }
});

Deno.test("an id that there is not is not found, whatever it is", () =>
  withJobApp(async ({ send }) => {
    const ids = [
      "ds_01ARZ3NDEKTSV4RRFFQ69G5FAV",
      "__proto__",
      "constructor",
      "%00",
      "%2e%2e%2fx",
      "x".repeat(5000),
      "é",
    ];
    for (const id of ids) {
      for (const rest of ["", "/preview", "/rows/1/tokens?model=/x"]) {
        assert.deepEqual(
          refusal(await send(`/v1/datasets/${id}${rest}`)),
          [404, "not-found", ["/path/id not_found"]],
          id,
        );
      }
      const post = { method: "POST", body: "{}", headers: { "content-type": "application/json" } };
      assert.equal((await send(`/v1/datasets/${id}/tokenize`, post)).status, 404);
    }
  }));

Deno.test("a preview shows rows from any line on", () =>
  withJobApp(async (app) => {
    const id = await stored(
      app,
      Array.from({ length: 3000 }, (_, i) => `{"text":"${i + 1}"}`).join("\n") + "\n{",
    );
    const preview = async (query: string) => (await app.send(`/v1/datasets/${id}/preview${query}`)).json;
    const first = await preview("?limit=2");
    assert.deepEqual(first.rows, [
      { line: 1, row: { text: "1" }, text: null, problem: null },
      { line: 2, row: { text: "2" }, text: null, problem: null },
    ]);
    assert.equal((await preview(`?limit=1&cursor=${first.next_cursor}`)).rows[0].line, 3);
    const far = await preview(`?cursor=${new PagedList("rows", NUMBER_KEYS).cursorOf(2999)}`);
    assert.deepEqual(far.rows.map(({ line }: { line: number }) => line), [2999, 3000, 3001]);
    assert.deepEqual([far.rows[2].row, far.rows[2].text, far.next_cursor], [null, "{", null]);
    assert.match(far.rows[2].problem, /^not JSON/);
    const broken = await app.send(`/v1/datasets/${id}/preview?cursor=eA`);
    assert.deepEqual(refusal(broken), [422, "invalid-request", ["/query/cursor invalid_value"]]);
  }));

Deno.test("a row's tokens come in pages, with what is trained", () =>
  withJobApp(async (app) => {
    const model = `${app.root}/model.gguf`;
    await Deno.copyFile(await fixturePath("models/tiny-agent-q8_0.gguf"), model);
    const id = await stored(app, `${chat("yes")}\n{"messages":3}`);
    const tokens = (n: string, query: string) => app.send(`/v1/datasets/${id}/rows/${n}/tokens?${query}`);
    const whole = (await tokens("1", `model=${model}&limit=500`)).json;
    assert.equal(whole.next_cursor, null);
    const text = whole.tokens.map((token: { text: string }) => token.text).join("");
    assert.match(text, /<\|im_start\|>user\nhi<\|im_end\|>\n<\|im_start\|>assistant\n.*yes<\|im_end\|>/s);
    const trained = whole.tokens.filter((token: { trained: boolean }) => token.trained);
    assert.equal(trained.at(-1).text, "<|im_end|>");
    assert.ok(trained.every((token: { origin: string }) => token.origin === "model"));
    assert.deepEqual(whole.tokens[0], {
      id: whole.tokens[0].id,
      text: "<|im_start|>",
      origin: "prompt",
      trained: false,
      sequence: 0,
      side: null,
    });
    const page = (await tokens("1", `model=${model}&limit=7`)).json;
    const next = (await tokens("1", `model=${model}&limit=7&cursor=${page.next_cursor}`)).json;
    assert.deepEqual([...page.tokens, ...next.tokens], whole.tokens.slice(0, 14));
    const cut = (await tokens("1", `model=${model}&ctx=16&limit=500`)).json;
    assert.ok(cut.tokens.every((token: { trained: boolean }) => !token.trained));
    const refused = async (n: string, query: string) => refusal(await tokens(n, query));
    assert.deepEqual(await refused("2", `model=${model}`), [422, "invalid-request", [
      "/path/n invalid_value",
    ]]);
    for (const n of ["3", "0", "-1", "x", "1e0", "99999999999999999999"]) {
      assert.deepEqual(await refused(n, `model=${model}`), [404, "not-found", ["/path/n not_found"]], n);
    }
    assert.deepEqual(await refused("1", ""), [422, "invalid-request", ["/query/model missing_field"]]);
    assert.deepEqual(await refused("1", `model=${model}&ctx=0`), [
      422,
      "invalid-request",
      ["/query/ctx out_of_range"],
    ]);
    assert.deepEqual(await refused("1", "model=/etc/passwd"), [
      403,
      "forbidden-path",
      ["/query/model forbidden_path"],
    ]);
    assert.deepEqual(await refused("1", `model=${app.root}/none`), [
      422,
      "invalid-request",
      ["/query/model path_not_found"],
    ]);
    await Deno.writeTextFile(`${app.root}/x.gguf`, "GGUF no more");
    assert.deepEqual(await refused("1", `model=${app.root}/x.gguf`), [
      422,
      "invalid-request",
      ["/query/model unsupported_format"],
    ]);
  }));

Deno.test("the lengths of a dataset's rows, and what may go wrong", () =>
  withJobApp(async (app) => {
    const model = `${app.root}/model.gguf`;
    await Deno.copyFile(await fixturePath("models/tiny-agent-q8_0.gguf"), model);
    const id = await stored(app, `${chat("yes")}\n${chat("no")}\n{`);
    const ask = (body: object, of = id) => {
      const headers = { "content-type": "application/json" };
      return app.send(`/v1/datasets/${of}/tokenize`, { method: "POST", body: JSON.stringify(body), headers });
    };
    const { status, json } = await ask({ model, template_variables: { enable_thinking: false } });
    assert.equal(status, 200);
    const { rows, complete, sequences, truncated, problems, longest, histogram, ctx } = json;
    assert.deepEqual({ rows, complete, sequences, truncated, ctx }, {
      rows: 2,
      complete: true,
      sequences: 2,
      truncated: { rows: 0, lines: [] },
      ctx: 1024,
    });
    assert.deepEqual(histogram, [{ min_tokens: 0, max_tokens: 64, rows: 2 }]);
    assert.equal(longest[0].tokens + longest[1].tokens, json.tokens);
    assert.ok(json.trained_tokens > 0 && json.trained_tokens < json.tokens);
    assert.deepEqual(problems.map(({ line }: { line: number }) => line), [3]);
    const short = (await ask({ model, ctx: 16 })).json;
    assert.deepEqual([short.truncated, short.trained_tokens], [{ rows: 2, lines: [1, 2] }, 0]);
    const refused = async (body: object, of = id) => refusal(await ask(body, of));
    assert.deepEqual(await refused({ model: "model.gguf" }), [403, "forbidden-path", [
      "/model forbidden_path",
    ]]);
    assert.deepEqual(await refused({ model: `${app.root}/none` }), [
      422,
      "invalid-request",
      ["/model path_not_found"],
    ]);
    await Deno.writeTextFile(`${app.root}/x.gguf`, "GGUF no more");
    assert.deepEqual(await refused({ model: `${app.root}/x.gguf` }), [
      422,
      "invalid-request",
      ["/model unsupported_format"],
    ]);
    assert.deepEqual(await refused({ modle: model, ctx: 0 }), [
      422,
      "invalid-request",
      ["/model missing_field", "/ctx out_of_range", "/modle unknown_field"],
    ]);
    const none = await stored(app, '{"x":1}');
    assert.deepEqual((await app.send(`/v1/datasets/${none}`)).json.kind, null);
    assert.deepEqual(await refused({ model }, none), [422, "invalid-request", ["/path/id invalid_value"]]);
  }));

Deno.test("a hostile template ends at its limit, at the model's field", () =>
  withJobApp(async (app) => {
    const model = `${app.root}/model.gguf`;
    const bytes = await Deno.readFile(await fixturePath("models/tiny-agent-q8_0.gguf"));
    const text = new TextDecoder("latin1").decode(bytes);
    const at = text.indexOf("{%", text.indexOf("tokenizer.chat_template"));
    const endless = "{% for i in range(9999999) %}{% for j in range(9999999) %}x{% endfor %}{% endfor %}{#";
    bytes.set(new TextEncoder().encode(endless), at);
    await Deno.writeFile(model, bytes);
    const id = await stored(app, chat("yes"));
    const { status, json } = await app.send(`/v1/datasets/${id}/rows/1/tokens?model=${model}`);
    assert.equal(status, 422);
    assert.deepEqual(json.errors.map(({ pointer, code }: Record<string, string>) => [pointer, code]), [[
      "/query/model",
      "invalid_value",
    ]]);
  }));
