import { equal } from "node:assert/strict";
import type { GgufValue } from "./gguf_values.ts";
import { modelName } from "./model_name.ts";

const PATH = "/data/models/tiny-q8_0.gguf";

function nameOf(entries: Record<string, string | number>, path = PATH): string {
  const values = Object.entries(entries).map(([key, value]): [string, GgufValue] => [
    `general.${key}`,
    typeof value === "number" ? { type: "uint32", value } : { type: "string", value },
  ]);
  return modelName(new Map(values), path);
}

Deno.test("a model's own repository is named by its id, the surest key first", () => {
  const own = { "source.huggingface.repository": "Qwen/Qwen3-0.6B", name: "Qwen3 0.6B" };
  equal(nameOf(own), "Qwen/Qwen3-0.6B");
  equal(nameOf({ ...own, "repo_url": "https://huggingface.co/other/copy" }), "Qwen/Qwen3-0.6B");
  equal(nameOf({ "source.repo_url": "https://huggingface.co/a/b", "repo_url": "https://hf.co/c/d" }), "a/b");
  equal(nameOf({ "repo_url": "https://huggingface.co/Qwen/Qwen3-0.6B/tree/main?x=1#y" }), "Qwen/Qwen3-0.6B");
  equal(nameOf({ "repo_url": " https://hf.co/Qwen/Qwen3-0.6B " }), "Qwen/Qwen3-0.6B");
});

Deno.test("a URL that does not lead to a model is skipped", () => {
  for (
    const url of ["https://huggingface.co/unsloth", "https://github.com/a/b", "https://huggingface.co/", "/a"]
  ) {
    equal(nameOf({ "repo_url": url, name: "Tiny" }), "Tiny", url);
  }
  equal(nameOf({ "source.huggingface.repository": 7, name: "Tiny" }), "Tiny");
});

Deno.test("a parent counts only if it is the only parent and has the model's own name", () => {
  const parent = { "base_model.count": 1, "base_model.0.repo_url": "https://huggingface.co/Qwen/Qwen3-0.6B" };
  equal(nameOf({ ...parent, name: "Qwen3 0.6B" }), "Qwen/Qwen3-0.6B");
  equal(nameOf({ ...parent, name: "qwen3-0.6b" }), "Qwen/Qwen3-0.6B");
  equal(nameOf({ ...parent, name: "My Finetune" }), "My Finetune");
  equal(nameOf({ ...parent, "base_model.count": 2, name: "Qwen3 0.6B" }), "Qwen3 0.6B", "a merge");
  equal(nameOf({ ...parent, name: "Qwen3 0.6B", "repo_url": "https://hf.co/a/b" }), "a/b");
});

Deno.test("without a repository it is the name, then the file's, never a path", () => {
  equal(nameOf({ name: "tiny-agent" }), "tiny-agent");
  equal(nameOf({ name: "org/tiny-agent" }), "org/tiny-agent");
  equal(nameOf({ name: "/data/models/tiny" }), "tiny");
  equal(nameOf({ name: "C:\\models\\tiny\\" }), "tiny");
  for (const name of ["", " ", "/"]) equal(nameOf({ name }), "tiny-q8_0");
  equal(nameOf({}), "tiny-q8_0");
  equal(nameOf({}, "model.GGUF"), "model");
});
