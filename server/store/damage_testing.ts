/** Damage in the write-ahead log of the server's database, as after a crash with a bad disk. */

import { ManualClock } from "../../core/clock_fake.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { loggedEvents, TestFleet } from "../../runs/fleet/fleet_testing.ts";
import { samplesOf } from "../../runs/results/metric_series.ts";
import { runLogOf } from "../../runs/results/run_log.ts";
import { type Database, openDatabase } from "./database.ts";
import { type FleetEvent, FleetEvents } from "./fleet_events.ts";
import { followFleet } from "./follow_fleet.ts";
import { rowsBySeq } from "./metric_rows.ts";
import { RunIndex } from "./run_index.ts";

/** What the server shows of its runs: the events of all runs, and the samples of each. */
async function shown(database: Database, fleet: TestFleet): Promise<string[]> {
  const query = "SELECT seq, run, kind, state FROM fleet_events ORDER BY seq";
  const rows = database.all<FleetEvent>(query).map((row) => JSON.stringify(row)),
    index = new RunIndex(database);
  for (const { id, directory } of fleet.fleet.list()) {
    await index.follow(runLogOf(id, { directory, trajectories: null })!);
    for await (const row of rowsBySeq(database, { run: id })) {
      rows.push(...samplesOf(row).map((sample) => JSON.stringify(sample)));
    }
  }
  return rows;
}

/** The same, according to the logs of the runs. */
async function expectedFromLogs({ fleet }: TestFleet): Promise<string[]> {
  const published: object[] = [], samples: object[] = [];
  for (const run of fleet.list()) {
    const states: object[] = [];
    for (const event of await loggedEvents(run)) {
      if (event.kind === "state") {
        states.push({ run: run.id, kind: states.length === 0 ? "created" : "state", state: event.state });
      }
      if (event.kind !== "metrics") continue;
      const { seq, time, update, step, values } = event;
      for (const [name, value] of Object.entries(values)) {
        samples.push({ seq, time, update, step, name, value });
      }
    }
    // Runs are listed newest first, and published oldest first.
    published.unshift(...states);
  }
  return [...published.map((event, i) => ({ seq: i + 1, ...event })), ...samples].map((row) =>
    JSON.stringify(row)
  );
}

/** Starts a server on the files and stops it. @returns What it shows, and what it should. */
async function restart(folder: string, during = (_: Database) => Promise.resolve()) {
  const clock = new ManualClock(), log = () => {};
  const database = openDatabase(`${folder}/index.sqlite`, { clock, log });
  const fleet = await TestFleet.open({ folder });
  const events = new FleetEvents(database, clock), index = new RunIndex(database);
  const following = followFleet({ fleet: fleet.fleet, changes: fleet.relayed, events, index, log });
  await fleet.close();
  await following;
  const found = await shown(database, fleet), expected = await expectedFromLogs(fleet);
  await during(database);
  database.close();
  return { found, expected };
}

/** The files of the database, as a crash at some moment leaves them. */
type Files = Map<string, Uint8Array<ArrayBuffer>>;

async function filesIn(folder: string): Promise<Files> {
  const files: Files = new Map();
  for (const ending of ["", "-wal"]) {
    files.set(ending, await Deno.readFile(`${folder}/index.sqlite${ending}`));
  }
  return files;
}

/** Creates runs, and copies the database's files: with everything in the log, and with a part of it moved on. */
async function crashes(folder: string): Promise<{ files: Files[]; expected: string[] }> {
  const fleet = await TestFleet.open({ folder, slots: 3 });
  const runs = await Promise.all([1, 2, 3].map((updates) => fleet.create({ updates })));
  for (const run of runs) await fleet.until(run, "completed");
  await fleet.close();
  const files: Files[] = [];
  const { expected } = await restart(folder, async (database) => {
    files.push(await filesIn(folder));
    database.get("PRAGMA wal_checkpoint(PASSIVE)");
    files.push(await filesIn(folder));
    database.run("INSERT INTO metric_lists (names) VALUES ('[]')");
    files.push(await filesIn(folder));
  });
  return { files, expected };
}

export interface WalDamages {
  /** The number of positions at which bytes were flipped, or the file was cut. */
  positions: number;
  /** What a server then showed otherwise than the logs of its runs have it. */
  different: string[];
  /** The lines that were compared, and the bytes of each log. */
  lines: number;
  wal_bytes: number[];
}

/**
 * Starts a server after each of many damages: whatever a byte or the length of the write-ahead log is, it must show what
 * the logs of its runs have.
 */
export async function damageWal(
  folder: string,
  { positions, seed }: { positions: number; seed: number },
): Promise<WalDamages> {
  const { files, expected } = await crashes(folder), random = new Rng(rngKey(seed, "wal"));
  const different: string[] = [];
  for (let i = 0; i < positions; i++) {
    const moment = i % files.length, whole = files[moment]!, wal = whole.get("-wal")!;
    const at = random.below(wal.length), is_cut = random.below(2) === 0;
    const damaged = is_cut ? wal.slice(0, at) : wal.with(at, wal[at]! ^ 1 << random.below(8));
    for (const { name } of [...Deno.readDirSync(folder)]) {
      if (name.startsWith("index.sqlite")) await Deno.remove(`${folder}/${name}`);
    }
    await Deno.writeFile(`${folder}/index.sqlite`, whole.get("")!);
    await Deno.writeFile(`${folder}/index.sqlite-wal`, damaged);
    const place = `moment ${moment}, byte ${at}, ${is_cut ? "cut" : "flipped"}`;
    const found = await restart(folder).then(({ found }) => found, (error: Error) => [error.message]);
    const at_line = expected.findIndex((line, i) => line !== found[i]);
    if (at_line >= 0 || found.length !== expected.length) {
      different.push(`${place}: ${found.length} lines, ${found[at_line]} instead of ${expected[at_line]}`);
    }
  }
  const wal_bytes = files.map((map) => map.get("-wal")!.length);
  return { positions, different, lines: expected.length, wal_bytes };
}
