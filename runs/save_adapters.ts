/** The files that a completed run leaves. */

import type { EngineClient } from "../trainer/engine/client.ts";
import { keptAdapters } from "./kept_adapters.ts";
import type { LiveRun } from "./live_run.ts";
import { refuseStrangeAdapter } from "./strangers.ts";
import { POLICY } from "./training_loop.ts";

/** The engine's name of the best adapter while it is saved. */
const BEST = "best";

/**
 * Writes both adapters, whole, under their final names, and tells of them.
 *
 * @throws {ServiceError} `already_exists` where something that no run wrote has taken a place of theirs.
 */
export async function saveAdapters(run: LiveRun, engine: EngineClient): Promise<void> {
  const { output } = run.config;
  const { chosen, other } = keptAdapters(output, run.state);
  await refuseStrangeAdapter(run.config);
  const emit = (name: string, path: string, { bytes, sha256 }: { bytes: number; sha256: string }) =>
    run.emit({ kind: "artifact", name, path, size_bytes: bytes, sha256 });
  const save = async (adapter: string, path: string, peft_dir: string | null) =>
    await engine.call("adapter_save", { adapter, path, peft_dir });
  const adapter = chosen.which === "last" ? POLICY : BEST;
  if (chosen.which === "best") {
    await engine.call("adapter_open", { adapter, source: { type: "file", path: run.bestAdapterPath } });
  }
  emit("adapter", chosen.path, await save(adapter, chosen.path, output.peft_dir ?? null));
  if (chosen.which === "best") {
    await engine.call("adapter_close", { adapter });
    emit("adapter_last", other!.path, await save(POLICY, other!.path, null));
  }
  // Where it was not chosen it stays what it is: the best one, beside the last.
  if (other?.which !== "best") await Deno.remove(run.bestAdapterPath).catch(ignoreMissing);
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}
