/** The models behind compared runs. */

import type { Run } from "../../api/types.ts";
import type { ChatModel } from "../client/side_chat.ts";

/** The keys of `[model]` by which the server tells whether runs have the same base. */
const BASE_KEYS = ["path", "device", "webgpu", "compute", "kv"] as const;

/** The base model of a run: its file's name, and a key that is the same for runs with the same base. */
export function baseOf({ config }: Pick<Run, "config">): { key: string; name: string } {
  const model = (config.model ?? {}) as Readonly<Record<string, unknown>>;
  const path = String(model.path ?? "");
  return {
    key: JSON.stringify(BASE_KEYS.map((key) => model[key] ?? null)),
    name: path.slice(path.lastIndexOf("/") + 1),
  };
}

/** Who is asked: each base once, before the runs that train it, in the order of the runs. */
export function modelsOf(runs: readonly Pick<Run, "id" | "config">[]): ChatModel[] {
  const known = new Set<string>();
  return runs.flatMap((run) => {
    const { id } = run, base = baseOf(run).key, is_new = !known.has(base);
    known.add(base);
    return [
      ...(is_new ? [{ run: id, has_adapter: false, base }] : []),
      { run: id, has_adapter: true, base },
    ];
  });
}
