/** Lists this machine's devices. It runs in a worker, because a probe blocks its thread. */

import type { DeviceRequest, GpuCard } from "../core/device.ts";
import { errorFromRecord, type ErrorRecord, errorRecord, ServiceError } from "../core/errors.ts";
import { permissionsFor } from "../core/permissions.ts";
import { webGpuNeeds } from "../core/webgpu_providers.ts";
import { startThread, threadGone } from "../core/worker_thread.ts";
import { openCheckedGpu } from "../kernels/canary/open_checked.ts";
import type { ProbedDevice } from "../server/routing/services.ts";

/** The name of the worker for {@link answerProbe}. */
const PROBE_WORKER = "probe";

/** The time for the worker's thread to end before the answer is returned without waiting. */
const CLOSE_TIMEOUT_MS = 5000;

/** The device that a run takes without keys of its own. */
const PROBED: DeviceRequest = { device: "auto", webgpu: "auto" };

type ProbeAnswer = { probed: ProbedDevice[] } | { error: ErrorRecord };

/** Opens a device. */
type Open = (request: DeviceRequest) => Promise<{ device: Pick<GPUDevice, "destroy"> } & GpuCard>;

async function describe(request: DeviceRequest, open: Open): Promise<ProbedDevice | null> {
  try {
    const { device, facts, subgroup_size } = await open(request);
    device.destroy();
    return { ...facts, subgroup_size };
  } catch (error) {
    if (error instanceof ServiceError && error.code === "device_unavailable") return null;
    throw error;
  }
}

/** The device that a run takes first and, beside a GPU, the software adapter; empty without an adapter. */
export async function describeDevices(open: Open = openCheckedGpu): Promise<ProbedDevice[]> {
  const first = await describe(PROBED, open);
  if (first === null || first.software) return first === null ? [] : [first];
  const software = await describe({ ...PROBED, device: "software" }, open);
  return software === null ? [first] : [first, software];
}

/** In the worker: describes the devices, sends the answer, and closes the worker. */
export async function answerProbe(): Promise<void> {
  const scope = globalThis as unknown as Worker & { close(): void };
  let answer: ProbeAnswer;
  try {
    answer = { probed: await describeDevices() };
  } catch (error) {
    answer = { error: errorRecord(error) };
  }
  scope.postMessage(answer);
  scope.close();
}

/** The devices of this machine, the one that a run would take first; empty without an adapter. */
export async function probeDevices(entry_url: string): Promise<ProbedDevice[]> {
  const { worker, thread } = startThread(() =>
    new Worker(entry_url, {
      type: "module",
      name: PROBE_WORKER,
      deno: { permissions: permissionsFor(webGpuNeeds(PROBED.webgpu)) },
    })
  );
  const answer = await new Promise<ProbeAnswer>((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<ProbeAnswer>) => resolve(data);
    worker.onerror = (event) => {
      event.preventDefault();
      reject(new ServiceError("internal", `Cannot probe the device: the worker failed (${event.message})`));
    };
  });
  await threadGone(thread, CLOSE_TIMEOUT_MS);
  if ("probed" in answer) return answer.probed;
  throw errorFromRecord(answer.error);
}
