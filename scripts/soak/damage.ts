/** Flips and cuts the files that a real run wrote, and the write-ahead log of the database, at random places. */

import { basename } from "node:path";
import { Rng, rngKey } from "../../core/random.ts";
import { checkAdapter } from "../../runs/directory/checked_adapter.ts";
import { listCheckpoints, newestCheckpoint } from "../../runs/directory/checkpoint.ts";
import { damageWal } from "../../server/store/damage_testing.ts";
import { withFolder } from "../../tests/folder.ts";
import { smallSft, trainedBySvc } from "../../tests/small_sft.ts";
import { firstOf, type SoakPart } from "./part.ts";

/** Why a damaged file is not noticed as it should be; null when it is. */
type Notice = (path: string) => Promise<string | null>;

/** The run must go on from the checkpoint before, and tell of the file in one warning. */
function noticedInCheckpoint(root: string, before: string): Notice {
  return async (path) => {
    const warnings: string[] = [];
    const found = await newestCheckpoint(root, (message) => warnings.push(message));
    if (found?.name !== before) return `${found?.name} is used`;
    const [warning = "", ...more] = warnings;
    return warning.includes(basename(path)) && more.length === 0 ? null : `the warnings are ${warnings}`;
  };
}

const noticedInAdapter: Notice = async (path) => {
  const message = await checkAdapter(path).then(() => null, (error: Error) => error.message);
  if (message === null) return "it is used";
  return message.includes(path) ? null : `its error is ${message}`;
};

async function damageFiles(
  folder: string,
  { count, seed, say }: { count: number; seed: number; say: (text: string) => void },
): Promise<{ files: Record<string, number>; unnoticed: string[] }> {
  await trainedBySvc(folder, await smallSft(folder, { updates: 3, more: { "checkpoint.every_updates": 1 } }));
  const run = `${folder}/run`, root = `${run}/checkpoints`;
  const [newest, before] = (await listCheckpoints(root)).reverse() as [string, string];
  const names = Array.from(Deno.readDirSync(`${root}/${newest}`), ({ name }) => `${root}/${newest}/${name}`);
  const paths = [...names.sort(), `${run}/adapter.gguf`], random = new Rng(rngKey(seed, "damage"));
  const files: Record<string, number> = {}, unnoticed: string[] = [];
  for (let i = 0; i < count; i++) {
    const path = paths[i % paths.length]!, whole = await Deno.readFile(path);
    // Half of them in the first kilobyte, where the headers are.
    const at = random.below(random.below(2) === 0 ? Math.min(1024, whole.length) : whole.length);
    const is_cut = random.below(2) === 0, bit = random.below(8);
    await Deno.writeFile(path, is_cut ? whole.subarray(0, at) : whole.with(at, whole[at]! ^ 1 << bit));
    const notice = names.includes(path) ? noticedInCheckpoint(root, before) : noticedInAdapter;
    const problem = await notice(path);
    await Deno.writeFile(path, whole);
    const name = path.slice(run.length + 1);
    if (problem !== null) unnoticed.push(`${name} ${is_cut ? "cut" : "flipped"} at ${at}: ${problem}`);
    files[name] = (files[name] ?? 0) + 1;
    if ((i + 1) % 100 === 0) say(`${i + 1} of ${count} damages`);
  }
  return { files, unnoticed };
}

/** D4: damage is found by length and SHA-256, named, and never used. */
export const damage: SoakPart = {
  what: "flips and cuts files of a checkpoint, an adapter and the database at random places",
  full: { count: 1000, minutes: Infinity },
  async run({ count, seed, say }) {
    let failures: string[] = [], found = {};
    await withFolder(async (folder) => {
      const { files, unnoticed } = await damageFiles(folder, { count, seed, say });
      await Deno.mkdir(`${folder}/server`);
      const { different, ...wal } = await damageWal(`${folder}/server`, { positions: count, seed });
      failures = firstOf([...unnoticed, ...different]);
      found = { files, wal };
    });
    return { failures, ...found };
  },
};
