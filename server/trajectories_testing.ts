/** A server with one run that has trajectories, for tests. */

import { ObservedRuns } from "../runs/views/observed_runs.ts";
import { testApp } from "./app_testing.ts";
import { VIEW_RUN_ID, ViewSource } from "./resources/view_run.ts";

export const RUN_PATH = `/v1/runs/${VIEW_RUN_ID}`;

/** The source of one run that exports to a directory. */
export function sourceOf(path: string): ViewSource {
  return new ViewSource({ path, time: "2025-12-31T00:00:00.000Z" }, new ObservedRuns());
}

export type Send = ReturnType<typeof testApp>["send"];

/** Runs a test with an empty observe directory, and a server that shows it. */
export async function withServer(body: (directory: string, send: Send) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await body(directory, testApp({ runs: sourceOf(directory) }).send);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}
