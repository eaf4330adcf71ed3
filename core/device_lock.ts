/**
 * Which processes of this machine use a device: a file for each of them in a folder that all find, locked as long as
 * the process lives. The system releases such a lock however the process ends. Only hardware is locked: any number of
 * processes may use a software adapter.
 */

import { type Clock, systemClock } from "./clock.ts";
import type { DeviceFacts } from "./device.ts";
import { type ErrorRecord, ServiceError } from "./errors.ts";
import { reasonOf } from "./system_errors.ts";
import type { WebGpuProviderName } from "./webgpu_providers.ts";

/** Names the folder. */
export const DEVICE_DIR_ENV = "SVC_DEVICE_DIR";

/** Names the devices whose layouts are measured: `gpu`, the default, `all` or `off`. */
export const TUNING_ENV = "SVC_TUNING";

/** Names the owner for the processes that a server starts. */
export const DEVICE_OWNER_ENV = "SVC_DEVICE_OWNER";

/** The folder that a service manager may prepare; without it the folder is one of temporary files. */
const RUNTIME_FOLDER = "/run/svc-device";

/** The time for a process that serves a model to leave, when a run waits for the device. */
export const DEVICE_WAIT_MS = 20_000;

/** Seconds after which a client that found the device taken may ask again. */
export const RETRY_AFTER_SECONDS = 30;

/** How often a waiting run looks. */
const LOOK_MS = 250;

/** The most bytes of a file that are read. */
const MAX_BYTES = 4096;

/** The use of the device. A run takes it from a process that serves a model; no other use displaces another. */
export type DeviceUse = "run" | "probe" | "serving";

/** The process that takes a device, and its use of the device. Plain data, to cross to a worker. */
export interface DeviceClaim {
  folder: string;
  /** Processes with the same owner share the device: a server lends it to its own. */
  owner: string;
  pid: number;
  use: DeviceUse;
  /** The run that it is about; null without one. */
  run: string | null;
  /** The devices whose layouts are measured; absent: none. */
  tuning?: TuningDevices;
}

/** Devices whose layouts of products are measured once (`kernels/tuning/`). */
export type TuningDevices = "gpu" | "all" | "off";

/** A process of another owner. */
export interface DeviceHolder extends Omit<DeviceClaim, "folder" | "tuning"> {
  device: string;
  /** The WebGPU through which it has the device; absent in the file of an earlier version. */
  webgpu?: WebGpuProviderName;
  /** Whether it waits for the device, and does not have it yet. */
  waits: boolean;
}

let own_owner: string | null = null;

/** The owner of this process's claims: the server that started it, else itself. */
export function deviceOwner(): string {
  return own_owner ??= Deno.env.get(DEVICE_OWNER_ENV) || `${Deno.pid}.${crypto.randomUUID()}`;
}

/** The folder with the files of all processes. */
export function deviceFolder(): string {
  const named = Deno.env.get(DEVICE_DIR_ENV);
  if (named) return named;
  if (Deno.build.os === "windows") return `${Deno.env.get("TEMP") ?? "."}\\svc-device`;
  try {
    if (Deno.statSync(RUNTIME_FOLDER).isDirectory) return RUNTIME_FOLDER;
  } catch { /* nobody prepared it */ }
  return "/tmp/svc-device";
}

/** The claim of this process. */
export function deviceClaim(use: DeviceUse, run: string | null): DeviceClaim {
  const tuning = tuningDevices();
  return { folder: deviceFolder(), owner: deviceOwner(), pid: Deno.pid, use, run, tuning };
}

/** The devices of {@link TUNING_ENV}. */
export function tuningDevices(): TuningDevices {
  const named = Deno.env.get(TUNING_ENV);
  return named === "off" || named === "all" ? named : "gpu";
}

/** Whether a device is among those. */
export function isTuned(tuning: TuningDevices | undefined, device: { software: boolean }): boolean {
  return tuning === "all" || tuning === "gpu" && !device.software;
}

const DOES: Record<DeviceUse, string> = {
  run: "trains",
  probe: "evaluates or measures",
  serving: "serves a model",
};

/** A holder for people, such as "the process 4711, which trains run_01…". */
export function holderText({ pid, use, run }: Pick<DeviceHolder, "pid" | "use" | "run">): string {
  return `the process ${pid}, which ${DOES[use]}${run === null ? "" : ` (${run})`}`;
}

const HAS = ".has", WAITS = ".waits";

/** The live processes of other owners that have a device or wait for one. Removes the files of dead ones. */
export function deviceHolders({ folder, owner }: Pick<DeviceClaim, "folder" | "owner">): DeviceHolder[] {
  let names: string[];
  try {
    names = [...Deno.readDirSync(folder)].filter(({ isFile }) => isFile).map(({ name }) => name);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const waits = name.endsWith(WAITS);
    if (!waits && !name.endsWith(HAS)) return [];
    // A process that waited may just have got the device.
    const found = holderOf(`${folder}/${name}`) ??
      (waits ? holderOf(`${folder}/${name.slice(0, -WAITS.length)}${HAS}`) : null);
    return found && found.owner !== owner ? [{ ...found, waits }] : [];
  });
}

/** The live process of a file; null when there is none. */
function holderOf(path: string): Omit<DeviceHolder, "waits"> | null {
  try {
    using file = Deno.openSync(path, { read: true });
    if (file.tryLockSync(false)) {
      Deno.removeSync(path);
      return null;
    }
    const bytes = new Uint8Array(MAX_BYTES), n = file.readSync(bytes) ?? 0;
    return JSON.parse(new TextDecoder().decode(bytes.subarray(0, n)));
  } catch {
    return null;
  }
}

interface TakeOptions {
  /** The device's name, as the WebGPU spells it through which it is opened. */
  device: string;
  webgpu: WebGpuProviderName;
  clock?: Clock;
}

/**
 * Whether two processes may mean the same GPU. Each WebGPU spells names in its own way, so GPUs that are opened through two
 * of them are not told apart.
 */
function mayBeSame(one: Pick<TakeOptions, "device" | "webgpu">, other: DeviceHolder): boolean {
  return one.webgpu !== other.webgpu || one.device === other.device;
}

/** A device that this process uses. */
export class DeviceLock {
  readonly #file: Deno.FsFile;
  #path: string;

  private constructor(file: Deno.FsFile, path: string) {
    this.#file = file;
    this.#path = path;
  }

  /**
   * Takes a device, beside processes of the same owner. A run waits for a process that serves a model to leave, up to
   * {@link DEVICE_WAIT_MS}.
   *
   * @throws {ServiceError} `device_unavailable`, which names the process that has the device.
   */
  static async take(
    claim: DeviceClaim,
    { clock = systemClock, ...wanted }: TakeOptions,
  ): Promise<DeviceLock> {
    await makeDeviceFolder(claim.folder, wanted.device);
    const lock = await DeviceLock.#waiting(claim, wanted), until_ms = clock.monotonic_ms() + DEVICE_WAIT_MS;
    try {
      while (true) {
        const holder = await lock.#enter(claim, wanted);
        if (!holder) return lock;
        const leaves = claim.use === "run" && holder.use === "serving";
        if (!leaves || clock.monotonic_ms() >= until_ms) throw taken(wanted.device, holder);
        await clock.sleep(LOOK_MS);
      }
    } catch (error) {
      lock.close();
      throw error;
    }
  }

  /** Makes the file of a process that waits. It gets its name when it is locked. */
  static async #waiting(
    { folder, tuning: _, ...claim }: DeviceClaim,
    wanted: TakeOptions,
  ): Promise<DeviceLock> {
    const path = `${folder}/${claim.pid}-${crypto.randomUUID()}`;
    const file = await Deno.open(path, { createNew: true, write: true });
    const lock = new DeviceLock(file, path);
    try {
      await permitReading(path);
      await file.write(new TextEncoder().encode(JSON.stringify({ ...claim, ...wanted })));
      await file.lock(true);
      await lock.#rename(path + WAITS);
    } catch (error) {
      lock.close();
      throw error;
    }
    return lock;
  }

  /** Takes the device unless another owner has it. @returns Who has it; null when this process has it now. */
  async #enter({ folder, owner }: DeviceClaim, wanted: TakeOptions): Promise<DeviceHolder | null> {
    // Of two processes that want the device one looks first.
    using guard = await openGuard(`${folder}/guard`);
    await guard.lock(true);
    const others = deviceHolders({ folder, owner }).filter((other) =>
      mayBeSame(wanted, other) && !other.waits
    );
    const holder = others.find(({ use }) => use !== "serving") ?? others[0];
    if (holder) return holder;
    await this.#rename(this.#path.slice(0, -WAITS.length) + HAS);
    return null;
  }

  async #rename(path: string): Promise<void> {
    await Deno.rename(this.#path, path);
    this.#path = path;
  }

  /** Gives the device back. */
  close(): void {
    try {
      Deno.removeSync(this.#path);
    } catch { /* somebody cleaned up */ }
    this.#file.close();
  }
}

/** The one device that an engine uses; none at first. */
export class HeldDevice {
  #lock: DeviceLock | null = null;
  #name = "";
  #webgpu: WebGpuProviderName | null = null;

  /**
   * Takes hardware as {@link DeviceLock.take} does, and then gives back what was taken before; a software adapter needs no
   * lock. Nothing changes without a claim, and where the device is already taken.
   *
   * @throws {ServiceError} `device_unavailable`; no device is taken then.
   */
  async take(
    claim: DeviceClaim | undefined,
    { name, software, webgpu }: Pick<DeviceFacts, "name" | "software" | "webgpu">,
  ): Promise<void> {
    if (!claim || this.#lock && this.#name === name && this.#webgpu === webgpu) return;
    // It may be the same GPU through another WebGPU, which nobody else may take in between.
    const before = this.#lock;
    this.#lock = null;
    try {
      if (!software) this.#lock = await DeviceLock.take(claim, { device: name, webgpu });
    } finally {
      before?.close();
    }
    this.#name = name;
    this.#webgpu = webgpu;
  }

  /** Gives the device back, if there is one. */
  close(): void {
    this.#lock?.close();
    this.#lock = null;
  }
}

/** Whether a failure says that another process has the device; no other failure of a device has a time to ask again. */
export function isDeviceTaken({ code, details }: Pick<ErrorRecord, "code" | "details">): boolean {
  return code === "device_unavailable" && details.retry_after_seconds !== undefined;
}

function taken(device: string, holder: DeviceHolder): ServiceError {
  const is_other = holder.webgpu !== undefined && holder.device !== device;
  const what = is_other ? `${holder.device} through another WebGPU` : "it";
  return new ServiceError(
    "device_unavailable",
    `Cannot use ${device}: ${holderText(holder)}, has ${what}; wait until that ends`,
    { pid: holder.pid, run: holder.run, retry_after_seconds: RETRY_AFTER_SECONDS },
  );
}

/** Makes the folder, in which everybody may write. @throws {ServiceError} `device_unavailable`. */
export async function makeDeviceFolder(folder: string, device: string): Promise<void> {
  try {
    await Deno.mkdir(folder);
    if (Deno.build.os !== "windows") await Deno.chmod(folder, 0o1777);
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return;
    throw new ServiceError(
      "device_unavailable",
      `Cannot lock ${device}: the folder ${folder} cannot be made (${
        reasonOf(error)
      }); name another one with ` +
        `${DEVICE_DIR_ENV}, the same for every process`,
    );
  }
}

/** The lock of a moment. Whoever finds the file may lock it, also without permission to write. */
async function openGuard(path: string): Promise<Deno.FsFile> {
  try {
    return await Deno.open(path, { read: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    const file = await Deno.open(path, { read: true, write: true, create: true });
    await permitReading(path);
    return file;
  }
}

/** Processes of other users look into it. */
async function permitReading(path: string): Promise<void> {
  if (Deno.build.os !== "windows") await Deno.chmod(path, 0o644);
}
