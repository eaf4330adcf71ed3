/** Tries all output paths before a run starts, so that its result is not lost to a bad path. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import { whyNotWritable } from "../../core/files.ts";

/** @throws {ServiceError} `config_invalid`, naming every key whose path cannot be written. */
export async function checkWritable(config: ResolvedConfig): Promise<void> {
  const { run, agent, output, checkpoint, observe, metrics } = config;
  const places: [string, string | undefined, "file" | "folder"][] = [
    ["run.directory", run.directory, "folder"],
    ["output.path", output.path, "file"],
    ["output.peft_dir", output.peft_dir, "folder"],
    ["checkpoint.directory", checkpoint?.directory, "folder"],
    ["observe.directory", observe?.directory, "folder"],
    ["metrics.csv", metrics.csv, "file"],
    ["agent.judge.cache_path", agent?.judge?.cache_path, "file"],
  ];
  const problems: { key: string; message: string }[] = [];
  for (const [key, path, kind] of places) {
    const reason = path === undefined ? null : await whyNotWritable(path, kind);
    if (reason !== null) problems.push({ key, message: `${key}: Cannot write ${path}: ${reason}` });
  }
  if (problems.length === 0) return;
  const message = problems.map((problem) => problem.message).join("\n");
  throw new ServiceError("config_invalid", `Cannot begin the run:\n${message}`, { problems });
}
