import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { withFolder } from "../tests/folder.ts";
import { ManualClock } from "./clock_fake.ts";
import {
  DEVICE_WAIT_MS,
  type DeviceClaim,
  deviceHolders,
  DeviceLock,
  type DeviceUse,
  HeldDevice,
  holderText,
} from "./device_lock.ts";
import { ServiceError } from "./errors.ts";
import type { WebGpuProviderName } from "./webgpu_providers.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const LOCK = fileURLToPath(new URL("./device_lock.ts", import.meta.url));

const GPU = { device: "GPU", webgpu: "deno" } as const;

const claimOf = (folder: string, owner: string, use: DeviceUse = "run"): DeviceClaim => ({
  ...{ folder: `${folder}/devices`, owner, pid: 7, use, run: use === "run" ? `run_${owner}` : null },
});

const isTaken = (message: RegExp) => (error: unknown) =>
  error instanceof ServiceError && error.code === "device_unavailable" && message.test(error.message) &&
  error.details.retry_after_seconds === 30;

/** A program that takes the device, says so, and lives until it is killed. */
async function holder(claim: DeviceClaim): Promise<Deno.ChildProcess> {
  const code = `
    import { DeviceLock } from ${JSON.stringify(`file://${LOCK}`)};
    const claim = { ...${JSON.stringify(claim)}, pid: Deno.pid };
    await DeviceLock.take(claim, ${JSON.stringify(GPU)});
    console.log("taken");
    setInterval(() => {}, 1e6);`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", "--quiet", `data:text/typescript,${encodeURIComponent(code)}`],
    stdout: "piped",
    env: { NO_COLOR: "1" },
  }).spawn();
  const reader = child.stdout.getReader();
  assert.match(new TextDecoder().decode((await reader.read()).value), /taken/);
  reader.releaseLock();
  return child;
}

Deno.test(
  "a device has one owner, whose processes share it, and is free when its process is killed",
  strict,
  () =>
    withFolder(async (folder) => {
      const first = await holder(claimOf(folder, "a")), other = claimOf(folder, "b");
      const has = new RegExp(`^Cannot use GPU: the process ${first.pid}, which trains \\(run_a\\), has it`);
      await assert.rejects(DeviceLock.take(other, GPU), isTaken(has));
      assert.deepEqual(deviceHolders(other), [
        { owner: "a", pid: first.pid, use: "run", run: "run_a", ...GPU, waits: false },
      ]);
      assert.deepEqual(deviceHolders(claimOf(folder, "a")), []);
      (await DeviceLock.take(claimOf(folder, "a", "probe"), GPU)).close();
      (await DeviceLock.take(other, { ...GPU, device: "another GPU" })).close();
      first.kill("SIGKILL");
      await first.status;
      await first.stdout.cancel();
      const lock = await DeviceLock.take(other, GPU);
      await assert.rejects(
        DeviceLock.take(claimOf(folder, "c", "probe"), GPU),
        isTaken(/the process 7, which trains \(run_b\)/),
      );
      lock.close();
      const files = [...Deno.readDirSync(`${folder}/devices`)].map(({ name }) => name);
      assert.deepEqual(files, ["guard"], "what a killed process and refused ones left is gone");
    }),
);

Deno.test(
  "GPUs have names within one WebGPU; through two of them each may be the other",
  strict,
  () =>
    withFolder(async (folder) => {
      const a = claimOf(folder, "a"), b = claimOf(folder, "b"), c = claimOf(folder, "c");
      const deno = { device: "NVIDIA H100 80GB HBM3", webgpu: "deno" } as const;
      const dawn = { device: "nvidia-h100-80gb-hbm3", webgpu: "dawn" } as const;
      const lock = await DeviceLock.take(a, deno);
      await assert.rejects(
        DeviceLock.take(b, dawn),
        isTaken(
          /^Cannot use nvidia-h100-.*: .*\(run_a\), has NVIDIA H100 80GB HBM3 through another WebGPU; wait/,
        ),
      );
      const second = await DeviceLock.take(b, { ...deno, device: "NVIDIA A40" });
      await assert.rejects(DeviceLock.take(c, dawn), isTaken(/run_[ab]/));
      lock.close();
      second.close();
      const third = await DeviceLock.take(c, dawn);
      await assert.rejects(DeviceLock.take(a, deno), isTaken(/run_c/));
      third.close();
    }),
);

Deno.test(
  "a run waits for a process that serves a model, and nothing else waits",
  strict,
  () =>
    withFolder(async (folder) => {
      const clock = new ManualClock();
      const serving = await DeviceLock.take(claimOf(folder, "a", "serving"), GPU);
      await assert.rejects(
        DeviceLock.take(claimOf(folder, "b", "probe"), { ...GPU, clock }),
        isTaken(/which serves a model, has it/),
      );
      const waiting = DeviceLock.take(claimOf(folder, "b"), { ...GPU, clock });
      while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve));
      const [seen] = deviceHolders(claimOf(folder, "a"));
      assert.deepEqual([seen!.waits, holderText(seen!)], [true, "the process 7, which trains (run_b)"]);
      serving.close();
      await clock.advance(1000);
      const run = await waiting;
      assert.equal(deviceHolders(claimOf(folder, "a"))[0]!.waits, false);
      run.close();
      const again = await DeviceLock.take(claimOf(folder, "a", "serving"), GPU);
      const late = assert.rejects(
        DeviceLock.take(claimOf(folder, "b"), { ...GPU, clock }),
        isTaken(/serves a model/),
      );
      let is_late = false;
      late.then(() => is_late = true);
      for (let waited_ms = 0; !is_late; waited_ms += 250) {
        assert.ok(waited_ms <= DEVICE_WAIT_MS + 250);
        while (clock.sleeping === 0 && !is_late) await new Promise((resolve) => setTimeout(resolve));
        await clock.advance(250);
      }
      await late;
      again.close();
    }),
);

Deno.test("of processes that want a device at once one gets it", strict, () =>
  withFolder(async (folder) => {
    const { rename } = Deno;
    // Between the look at others and the new name another process may look too.
    Deno.rename = async (from, to) => {
      if (String(to).endsWith(".has")) await new Promise((resolve) => setTimeout(resolve));
      await rename(from, to);
    };
    try {
      const owners = Array.from({ length: 4 }, (_, i) => claimOf(folder, `owner_${i}`));
      const taking = owners.map((claim) => DeviceLock.take(claim, GPU));
      const settled = await Promise.allSettled(taking);
      const taken = settled.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
      assert.equal(taken.length, 1);
      taken[0]!.close();
    } finally {
      Deno.rename = rename;
    }
  }));

Deno.test(
  "a folder that cannot be made is named, with what to do",
  strict,
  () =>
    withFolder(async (folder) => {
      const claim = { ...claimOf(folder, "a"), folder: `${folder}/none/devices` };
      await assert.rejects(
        DeviceLock.take(claim, GPU),
        { code: "device_unavailable", message: /none\/devices cannot be made .* SVC_DEVICE_DIR/ },
      );
      assert.deepEqual(deviceHolders(claim), []);
    }),
);

Deno.test(
  "an engine has the last hardware that it took, once, and none after one that it cannot have",
  strict,
  () =>
    withFolder(async (folder) => {
      const claim = claimOf(folder, "a"), other = claimOf(folder, "b"), held = new HeldDevice();
      const taken = () => deviceHolders(other).map(({ device }) => device);
      const take = (name: string, software = false, webgpu: WebGpuProviderName = "deno") =>
        held.take(claim, { name, software, webgpu });
      await held.take(undefined, { name: "GPU", software: false, webgpu: "deno" });
      await take("llvmpipe", true);
      assert.deepEqual(taken(), []);
      await take("GPU");
      const names = () => [...Deno.readDirSync(claim.folder)].map(({ name }) => name).sort();
      const before = names();
      await take("GPU");
      assert.deepEqual(names(), before, "it is not given back in the meantime");
      assert.deepEqual(taken(), ["GPU"]);
      await held.take(undefined, { name: "another GPU", software: false, webgpu: "deno" });
      assert.deepEqual(taken(), ["GPU"]);
      await take("another GPU");
      assert.deepEqual(taken(), ["another GPU"]);
      const lock = await DeviceLock.take(other, GPU);
      await assert.rejects(take("GPU"), isTaken(/^Cannot use GPU: .*run_b/));
      lock.close();
      assert.deepEqual(taken(), []);
      await take("another GPU");
      const taking = take("another-gpu", false, "dawn");
      let is_taken = false;
      taking.then(() => is_taken = true);
      for (; !is_taken; await new Promise((resolve) => setTimeout(resolve))) {
        assert.ok(taken().length > 0, "it is not given back for the same one through another WebGPU");
      }
      assert.deepEqual(taken(), ["another-gpu"]);
      await take("llvmpipe", true);
      assert.deepEqual(taken(), []);
      await take("another GPU");
      held.close();
      held.close();
      assert.deepEqual(taken(), []);
    }),
);
