import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { outOfMemory, refuseUnfit, withAdvice } from "./memory_advice.ts";

Deno.test("a device without memory names its largest posts, and for each the keys that make it smaller", () => {
  const { code, message } = outOfMemory("go on", {
    loss: 2 ** 28,
    kv: 3 * 2 ** 30,
    weights: 2 ** 30,
    adapters: 0,
  });
  assert.equal(code, "out_of_memory");
  assert.equal(
    message,
    "Cannot go on: the device has no more memory (kv 3.00 GiB, weights 1.00 GiB, loss 0.25 GiB). " +
      "For kv: lower training.ctx, and with rollouts agent.concurrent_rollouts or agent.max_trajectory_tokens, " +
      'or set model.kv = "f16". For weights: take a smaller model, or a file with smaller weights such as Q4_K',
  );
  assert.equal(outOfMemory("go on", {}).message, "Cannot go on: the device has no more memory");
});

Deno.test("a refused allocation names the keys of its component, once", () => {
  const refused = (component: string) =>
    new ServiceError("out_of_memory", `Cannot allocate 9 bytes for ${component}: too many`, { component });
  const keys: Record<string, RegExp> = {
    kv: /training\.ctx.*agent\.concurrent_rollouts.*agent\.max_trajectory_tokens/,
    sampler: /training\.ctx.*agent\.concurrent_rollouts/,
    activations: /training\.micro_batch_tokens.*training\.ctx/,
    loss: /training\.loss_chunk_rows/,
    optimizer: /lora\.rank.*lora\.targets/,
    adapters: /lora\.rank.*lora\.targets/,
    weights: /Q4_K/,
  };
  for (const [component, expected] of Object.entries(keys)) {
    const advised = withAdvice(refused(component)) as ServiceError;
    assert.match(advised.message, /^Cannot allocate 9 bytes for \w+: too many; /);
    assert.match(advised.message, expected);
    assert.equal(withAdvice(advised), advised);
  }
  for (const other of [refused("unknown"), new ServiceError("conflict", "Cannot"), new Error("x")]) {
    assert.equal(withAdvice(other), other);
  }
});

Deno.test("what a device cannot hold is refused by the names of its tensors, the largest first", () => {
  const tensor = (name: string, component: string, size_bytes: number) => ({
    name,
    component,
    size_bytes,
    limit_bytes: 100,
  });
  const refusal = (
    unbindable: Parameters<typeof refuseUnfit>[1]["unbindable"],
    vram_bytes: number | null,
  ) => {
    try {
      refuseUnfit("load x.gguf", { bytes: { weights: 2 ** 31, kv: 2 ** 30 }, unbindable }, { vram_bytes });
    } catch (error) {
      assert.ok(error instanceof ServiceError);
      assert.equal(error.code, "out_of_memory");
      return error.message;
    }
    return null;
  };
  assert.equal(refusal([], null), null);
  assert.equal(refusal([], 3 * 2 ** 30), null);
  assert.match(refusal([], 3 * 2 ** 30 - 1)!, /^Cannot load x\.gguf: .* \(weights 2\.00 GiB, kv 1\.00 GiB\)/);
  assert.equal(
    refusal([
      tensor("output.weight", "weights", 300),
      tensor("kv", "kv", 400),
      tensor("kv", "kv", 400),
    ], null),
    "Cannot load x.gguf: the device binds at most 100 B in one piece, and kv takes 400 B, output.weight takes " +
      "300 B. For kv: lower training.ctx, and with rollouts agent.concurrent_rollouts or " +
      'agent.max_trajectory_tokens, or set model.kv = "f16". For weights: take a smaller model, or a file with ' +
      "smaller weights such as Q4_K",
  );
  assert.equal(
    refusal([tensor("cache", "new", 300)], null),
    "Cannot load x.gguf: the device binds at most 100 B in one piece, and cache takes 300 B",
    "a component without advice",
  );
  const many = ["a", "b", "c", "d", "e"].map((name, i) => tensor(name, "weights", 105 - i));
  assert.match(
    refusal(many, null)!,
    /a takes 105 B, b takes 104 B, c takes 103 B, 2 others more than that\. For weights/,
  );
});
