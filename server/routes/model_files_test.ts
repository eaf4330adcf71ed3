/** GET /v1/model-files and POST /v1/preflight, with real jobs. */

import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import type { FoundModel } from "../../runs/models/find_models.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { type Sent, testApp } from "../app_testing.ts";
import { withJobApp } from "../jobs_testing.ts";
import { ModelFiles } from "../sources/model_files.ts";

const TINY = await fixturePath("models/tiny-agent-f16.gguf");
const STORIES = await fixturePath("models/stories260k.gguf");
const ADAPTER = await fixturePath("models/tiny-agent/golden-lora/golden-lora.gguf");

/** in + out of every projection of a layer: width 256, queries 512 wide, keys and values 128, feed-forward 512. */
const SIDES = {
  q_proj: 768,
  k_proj: 384,
  v_proj: 384,
  o_proj: 768,
  gate_proj: 768,
  up_proj: 768,
  down_proj: 768,
};

/** The same projections: width 64, 8 heads of 8, 4 of keys and values, feed-forward 172. */
const STORIES_SIDES = 2 * 128 + 2 * 96 + 3 * 236;

const refusal = ({ status, json }: Sent) => [
  status,
  json.errors.map(({ pointer, code }: Record<string, string>) => `${pointer} ${code}`),
];

Deno.test("a search that a limit ended says so, and is logged once", async () => {
  let complete = true;
  const jobs = { run: () => Promise.resolve({ models: [], complete }) } as unknown as JobRunner;
  const root = await Deno.makeTempDir();
  const { send, logged } = testApp({ toml: `path_roots = [${JSON.stringify(root)}]`, jobs });
  const told: string[] = [];
  for (complete of [true, false, false, true, false]) {
    const { status, headers, json } = await send("/v1/model-files");
    assert.deepEqual([status, json], [200, { models: [], next_cursor: null }]);
    told.push(`${headers["x-search-complete"]} ${logged.length}`);
  }
  assert.deepEqual(told, ["true 0", "false 1", "false 1", "true 1", "false 2"]);
  assert.deepEqual(logged.map(({ level }) => level), ["warning", "warning"]);
  assert.match(String(logged[0]!.message), /limit of the search/);
  await Deno.remove(root);
});

Deno.test("model files are listed with what their headers say, and broken ones with the reason", () =>
  withJobApp(async ({ send, root }) => {
    await Deno.copyFile(TINY, `${root}/a.gguf`);
    await Deno.copyFile(ADAPTER, `${root}/b.gguf`);
    await Deno.mkdir(`${root}/c`);
    await Deno.copyFile(STORIES, `${root}/c/d.gguf`);
    await Deno.writeTextFile(`${root}/e.gguf`, "GGUF no more");
    const { models, next_cursor } = (await send("/v1/model-files")).json;
    assert.equal(next_cursor, null);
    assert.deepEqual(models.map(({ path }: { path: string }) => path), [
      `${root}/a.gguf`,
      `${root}/b.gguf`,
      `${root}/c/d.gguf`,
      `${root}/e.gguf`,
    ]);
    assert.deepEqual(models[0], {
      path: `${root}/a.gguf`,
      size_bytes: 6_859_328,
      type: "model",
      name: "tiny-agent",
      architecture: "qwen3",
      parameters: 3_410_688,
      tensor_types: models[0].tensor_types,
      context_length: 1024,
      chat_template: true,
      tool_call_format: "hermes",
      trainable: true,
      problem: null,
    });
    assert.deepEqual([...models[0].tensor_types].sort(), ["F16", "F32"]);
    const { type, architecture, parameters, tensor_types, trainable, chat_template } = models[1];
    assert.deepEqual({ type, architecture, trainable, chat_template }, {
      type: "adapter",
      architecture: "qwen3",
      trainable: false,
      chat_template: false,
    });
    assert.ok(parameters > 0 && tensor_types.length > 0);
    assert.deepEqual(
      [models[2].architecture, models[2].chat_template, models[2].tool_call_format],
      ["llama", false, null],
    );
    assert.deepEqual([models[3].type, models[3].architecture, models[3].parameters], [null, null, null]);
    assert.match(models[3].problem, /e\.gguf/);
  }));

Deno.test("the list of model files has pages, and is empty without roots", async () => {
  await withJobApp(async ({ send, root }) => {
    for (const name of ["a", "b", "c"]) await Deno.writeTextFile(`${root}/${name}.gguf`, name);
    const first = (await send("/v1/model-files?limit=2")).json;
    assert.equal(first.models.length, 2);
    const told = new TextDecoder().decode(
      Uint8Array.fromBase64(first.next_cursor, { alphabet: "base64url" }),
    );
    assert.ok(!told.includes("/") && !told.includes("b.gguf"), `the cursor tells ${told}`);
    const rest = (await send(`/v1/model-files?limit=2&cursor=${first.next_cursor}`)).json;
    assert.deepEqual([rest.models.map(({ path }: { path: string }) => path), rest.next_cursor], [
      [`${root}/c.gguf`],
      null,
    ]);
    assert.deepEqual(refusal(await send("/v1/model-files?cursor=%21")), [422, [
      "/query/cursor invalid_value",
    ]]);
  });
  await withJobApp(async ({ send, root }) => {
    await Deno.remove(root);
    assert.deepEqual((await send("/v1/model-files")).json, { models: [], next_cursor: null });
  });
});

const foundModel = (name: string): FoundModel => ({
  path: `/${name}`,
  file: { path: `/${name}`, dev: 1, ino: 1 },
  size_bytes: 1,
  modified_ms: 1,
});

Deno.test("a file that exceeds a limit is listed with it, and the others are described", async () => {
  const asked: string[][] = [];
  const jobs: JobRunner = {
    // deno-lint-ignore no-explicit-any -- stands for one job of many
    run: (_name, request: any): Promise<any> => {
      const paths = request.files.map(({ path }: { path: string }) => path);
      asked.push(paths);
      if (paths.includes("/b")) {
        return Promise.reject(new ServiceError("data_invalid", "too long", { limit: "seconds" }));
      }
      return Promise.resolve(paths.map((path: string) => ({ kind: "adapter", architecture: path })));
    },
  };
  const files = new ModelFiles({ roots: [], jobs });
  const names = ["a", "b", "c"].map(foundModel), signal = new AbortController().signal;
  const described = await files.describe(names, signal);
  assert.deepEqual(described.map((found) => found.kind ?? found.error.message), [
    "adapter",
    "too long",
    "adapter",
  ]);
  assert.deepEqual(asked, [["/a", "/b", "/c"], ["/a"], ["/b"], ["/c"]]);
  await files.describe(names, signal);
  assert.equal(asked.length, 4, "descriptions of unchanged files are kept");
  await files.describe([{ ...names[0]!, modified_ms: 2 }], signal);
  assert.deepEqual(asked.at(-1), ["/a"]);
});

Deno.test("preflight tells what a model supports", () =>
  withJobApp(async ({ send, root }) => {
    const model = `${root}/a.gguf`;
    await Deno.copyFile(TINY, model);
    const ask = (body: object) => {
      const headers = { "content-type": "application/json" };
      return send("/v1/preflight", { method: "POST", body: JSON.stringify(body), headers });
    };
    const { status, json } = await ask({ model });
    assert.equal(status, 200);
    const { tensor_types, template_probe, ...rest } = json;
    assert.deepEqual(rest, {
      model,
      name: "tiny-agent",
      architecture: "qwen3",
      parameters: 3_410_688,
      layers: 4,
      width: 256,
      context_length: 1024,
      vocabulary: 1024,
      tokenizer: "gpt2 qwen2",
      chat_template: true,
      trainable: true,
      not_trainable_reason: null,
      lora_targets: Object.keys(SIDES),
      lora_parameters_per_rank: 4 * Object.values(SIDES).reduce((sum, side) => sum + side),
      problems: [],
    });
    // 2 bytes for each of the 3,407,872 parameters of matrices, 4 for each of the norms.
    assert.deepEqual(tensor_types, {
      F16: { tensors: 30, bytes: 6_815_744, readable: true },
      F32: { tensors: 17, bytes: 4 * (3_410_688 - 6_815_744 / 2), readable: true },
    });
    assert.deepEqual([template_probe.tool_call_format, template_probe.tool_call_round_trip], [
      "hermes",
      true,
    ]);
    assert.equal(template_probe.turn_end, "<|im_end|>");
    const some = (await ask({ model, targets: ["q_proj", "k_proj", "q_proj"] })).json;
    assert.equal(some.lora_parameters_per_rank, 4 * (768 + 384));
    await Deno.copyFile(STORIES, `${root}/b.gguf`);
    const plain = (await ask({ model: `${root}/b.gguf`, targets: "all" })).json;
    assert.deepEqual([plain.chat_template, plain.template_probe], [false, null]);
    assert.equal(plain.lora_parameters_per_rank, 5 * STORIES_SIDES);
  }));

Deno.test("preflight refuses what is no model of the server's", () =>
  withJobApp(async ({ send, root }) => {
    await Deno.writeTextFile(`${root}/broken.gguf`, "GGUF no more");
    await Deno.copyFile(ADAPTER, `${root}/adapter.gguf`);
    await Deno.symlink(`${root}/broken.gguf`, `${root}/link.gguf`);
    const ask = async (body: object) => {
      const headers = { "content-type": "application/json" };
      return refusal(await send("/v1/preflight", { method: "POST", body: JSON.stringify(body), headers }));
    };
    for (
      const [model, status, entry] of [
        ["/etc/passwd", 403, "/model forbidden_path"],
        ["~/x.gguf", 403, "/model forbidden_path"],
        ["x.gguf", 403, "/model forbidden_path"],
        [`${root}/none.gguf`, 422, "/model path_not_found"],
        [root, 422, "/model path_not_found"],
        [`${root}/\0`, 422, "/model invalid_value"],
        ["", 422, "/model invalid_value"],
        [`${root}/broken.gguf`, 422, "/model unsupported_format"],
        [`${root}/adapter.gguf`, 422, "/model unsupported_format"],
      ] as const
    ) assert.deepEqual(await ask({ model }), [status, [entry]], model);
    assert.deepEqual(await ask({ targets: ["q"], modle: 1 }), [
      422,
      ["/model missing_field", "/targets/0 invalid_value", "/modle unknown_field"],
    ]);
    const body = JSON.stringify({ model: `${root}/link.gguf` });
    const headers = { "content-type": "application/json" };
    const { json } = await send("/v1/preflight", { method: "POST", body, headers });
    assert.match(json.detail, /link\.gguf/);
    assert.doesNotMatch(json.detail, /broken\.gguf/, "a link's target is not told");
  }));
