import assert from "node:assert/strict";
import { permissionsFor } from "../core/permissions.ts";
import { webGpuNeeds } from "../core/webgpu_providers.ts";
import { dawnEnvironment, dawnTest } from "../kernels/webgpu/dawn_testing.ts";
import { startEngine } from "../runs/session/workers.ts";

const entry_url = new URL("../cli.ts", import.meta.url).href;

dawnTest("an engine with the permissions of Dawn opens its device, and closes", async () => {
  const engine = startEngine({ entry_url, permissions: permissionsFor(webGpuNeeds("dawn")) });
  try {
    const { webgpu, webgpu_reason } = await engine.client.call("probe", { device: "auto", webgpu: "dawn" });
    assert.deepEqual([webgpu, webgpu_reason], ["dawn", "as configured"]);
  } finally {
    await engine.close();
  }
});

dawnTest("an engine with the permissions of Deno's WebGPU cannot load Dawn", async () => {
  const engine = startEngine({ entry_url, permissions: permissionsFor(webGpuNeeds("deno")) });
  try {
    await assert.rejects(
      engine.client.call("probe", { device: "auto", webgpu: "dawn" }),
      /Requires env access/,
    );
  } finally {
    await engine.close();
  }
});

/** Opens and closes a device of Dawn on the main thread of a process of its own. */
const OPEN = `
  import { openGpu } from ${JSON.stringify(new URL("../kernels/device.ts", import.meta.url).href)};
  import { Recorder } from ${JSON.stringify(new URL("../kernels/recorder.ts", import.meta.url).href)};
  const gpu = await openGpu({ device: "auto", webgpu: "dawn" });
  await new Recorder(gpu).submitAndWait();
  if (Deno.args[0] === "destroy") gpu.device.destroy();
  console.log("done");`;

for (const last of ["destroy", "leave"]) {
  dawnTest(`a process that used Dawn ends with status 0: ${last} the device`, async () => {
    const file = await Deno.makeTempFile({ suffix: ".ts" });
    try {
      await Deno.writeTextFile(file, OPEN);
      const { code, stdout } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--no-lock", file, last],
        env: dawnEnvironment() as Record<string, string>,
        stdin: "null",
      }).output();
      assert.deepEqual([code, new TextDecoder().decode(stdout)], [0, "done\n"]);
    } finally {
      await Deno.remove(file);
    }
  });
}
