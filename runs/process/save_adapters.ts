/** Writes the files of a completed run. */

import { ignoreMissing, sha256OfFile } from "../../core/files.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import { type KeptAdapter, keptAdapters } from "../directory/kept_adapters.ts";
import { refuseForeignAdapter } from "../directory/foreign_files.ts";
import type { LiveRun } from "./live_run.ts";
import { POLICY } from "../algorithms/algorithm.ts";

/** The engine's name of the best adapter while it is saved. */
const BEST = "best";

/**
 * Writes both adapters under their final names and emits their events.
 *
 * @throws {ServiceError} `already_exists` when a file that svc did not write is in the way.
 */
export async function saveAdapters(run: LiveRun, engine: EngineClient): Promise<void> {
  const { output } = run.config;
  const { chosen, other } = keptAdapters(output, run.state);
  await refuseForeignAdapter(run.config);
  const report = async (name: string, { path, update }: KeptAdapter) => {
    const { size } = await Deno.stat(path), sha256 = await sha256OfFile(path);
    run.emit({ kind: "artifact", name, path, size_bytes: size, sha256, update });
  };
  const save = (adapter: string, path: string, peft_dir: string | null) =>
    engine.call("adapter_save", { adapter, path, peft_dir });
  const peft_dir = output.peft_dir ?? null;
  if (chosen.which === "best") {
    await engine.call("adapter_open", {
      adapter: BEST,
      source: { type: "file", path: run.bestAdapterPath },
    });
    await save(BEST, chosen.path, peft_dir);
    await engine.call("adapter_close", { adapter: BEST });
    await save(POLICY, other!.path, null);
  } else await save(POLICY, chosen.path, peft_dir);
  await report("adapter", chosen);
  if (other) await report(`adapter_${other.which}`, other);
  // A run with evaluations already has the best adapter's file, which stays there when it is not chosen.
  if (run.state.best && other?.which !== "best") {
    await Deno.remove(run.bestAdapterPath).catch(ignoreMissing);
  }
}
