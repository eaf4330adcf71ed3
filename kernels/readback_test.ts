import assert from "node:assert/strict";
import type { Gpu } from "./device.ts";
import { gpuTest } from "./gpu_testing.ts";
import { Recorder } from "./recorder.ts";
import { fill } from "./rows/rows.ts";
import { Allocator } from "./tensor.ts";

/** Runs with a recorder whose reads of x are early from the second one on. */
async function withReads(
  gpu: Gpu,
  body: (read: (value: number) => Promise<number>, allocator: Allocator) => Promise<void>,
): Promise<void> {
  const recorder = new Recorder(gpu), allocator = new Allocator(gpu.device);
  const x = allocator.create("test", [4], "u32");
  try {
    await body(async (value) => {
      fill(recorder, x, value);
      const [bytes] = await recorder.submitAndRead([x]);
      return new Uint32Array(bytes!)[3]!;
    }, allocator);
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

/** Runs `body` with promises of `mapAsync` that are never fulfilled. */
async function withoutPromises(body: () => Promise<void>): Promise<void> {
  const original = GPUBuffer.prototype.mapAsync;
  GPUBuffer.prototype.mapAsync = function (...given) {
    original.apply(this, given).catch(() => {});
    return new Promise(() => {});
  };
  try {
    await body();
  } finally {
    GPUBuffer.prototype.mapAsync = original;
  }
}

/** A test of Deno's WebGPU: others do not block the thread. */
function denoTest(name: string, body: (gpu: Gpu) => Promise<void>): void {
  gpuTest(
    name,
    body,
    ({ facts: { webgpu } }) => webgpu === "deno" ? null : `it is for Deno's, not ${webgpu}`,
  );
}

denoTest(
  "only a buffer's first read waits for the promise of mapAsync",
  (gpu) =>
    withReads(gpu, async (read) => {
      assert.equal(await read(1), 1);
      await withoutPromises(async () => {
        for (const value of [2, 3, 4]) assert.equal(await read(value), value);
      });
      // The real promises of those reads are fulfilled meanwhile, and change nothing for the next.
      await new Promise((resolve) => setTimeout(resolve, 30));
      assert.equal(await read(5), 5);
    }),
);

/** A thread that sends a message when it gets one, and then says so in shared memory. */
const ANSWERER = `self.onmessage = ({ data }) => {
  self.postMessage("answer");
  Atomics.store(data, 0, 1);
  Atomics.notify(data, 0);
};
self.postMessage("ready");`;

denoTest("a message of another thread arrives within two reads", (gpu) =>
  withReads(gpu, async (read) => {
    const url = URL.createObjectURL(new Blob([ANSWERER], { type: "text/javascript" }));
    const worker = new Worker(url, { type: "module" });
    const next = () => new Promise((resolve) => worker.onmessage = resolve);
    try {
      await next();
      await read(0);
      for (let i = 0; i < 10; i++) {
        const flag = new Int32Array(new SharedArrayBuffer(4));
        let answered = false;
        next().then(() => answered = true);
        worker.postMessage(flag);
        // This thread does nothing until the answer is on its way.
        assert.notEqual(Atomics.wait(flag, 0, 0, 60_000), "timed-out");
        for (let reads = 0; reads < 2; reads++) await read(i);
        assert.ok(answered, `message ${i}`);
      }
    } finally {
      worker.terminate();
      URL.revokeObjectURL(url);
    }
  }));

denoTest("an error that makes bytes worthless is heard before them", async (gpu) => {
  await withReads(gpu, async (read, allocator) => {
    await read(1);
    let heard = "";
    const hear = (event: Event) => {
      event.preventDefault();
      heard = (event as GPUUncapturedErrorEvent).error.message;
    };
    gpu.device.addEventListener("uncapturederror", hear);
    try {
      const scope = allocator.scope(), lost = scope.create("test", [4], "u32");
      const encoder = gpu.device.createCommandEncoder();
      encoder.clearBuffer(lost.buffer);
      scope.destroy();
      gpu.device.queue.submit([encoder.finish()]);
      await read(2);
    } finally {
      gpu.device.removeEventListener("uncapturederror", hear);
    }
    assert.match(heard, /destroyed/);
  });
});
