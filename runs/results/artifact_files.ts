/** The files of a run that can be downloaded. Only complete ones: they appear by a rename, or end at their last line. */

import { isUpdateFile, OBSERVE_INDEX } from "../../agent/results/observed.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { eventsPathOf, logPathOf } from "../directory/run_directory.ts";
import { type Content, fileContent, folderFiles, type PackedFile } from "./content.ts";

const PEFT_FILES = ["adapter_config.json", "adapter_model.safetensors"];

/** The adapter as GGUF. */
export function adapterContent({ output }: ResolvedConfig): Promise<Content | null> {
  return fileContent(output.path);
}

/** The files of the adapter as a PEFT folder. */
export async function peftFiles({ output }: ResolvedConfig): Promise<PackedFile[]> {
  if (output.peft_dir === undefined) return [];
  return await folderFiles(output.peft_dir, (name) => PEFT_FILES.includes(name));
}

/** The files of an observe directory. */
export function trajectoryFiles(directory: string): Promise<PackedFile[]> {
  return folderFiles(
    directory,
    (name) => name === OBSERVE_INDEX || isUpdateFile(name),
    (name) => name === OBSERVE_INDEX ? "line" : "file",
  );
}

/** The event log of a run directory. @param most The bytes of it that are on disk; absent: all. */
export function eventsFile(directory: string, most?: number): Promise<Content | null> {
  return fileContent(eventsPathOf(directory), "line", most);
}

/** The events of a run directory for people. */
export function logFile(directory: string): Promise<Content | null> {
  return fileContent(logPathOf(directory), "line");
}
