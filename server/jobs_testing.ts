/** Apps whose jobs run in real processes. */

import { JobPool } from "../runs/jobs/job_pool.ts";
import { testApp, type TestAppOptions } from "./app_testing.ts";

/** The folders of an app with jobs: `data` for the server's data, `root` as its only path root. */
export interface JobApp extends ReturnType<typeof testApp> {
  data: string;
  root: string;
  /** Another app on the same folders, as after a restart. */
  restart: (changed?: TestAppOptions) => ReturnType<typeof testApp>;
}

/** Runs a test with an app, and ends its jobs. */
export async function withJobApp(
  body: (app: JobApp) => Promise<void>,
  { toml = "", ...options }: TestAppOptions = {},
): Promise<void> {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const jobs = new JobPool({ entry_url: new URL("../cli.ts", import.meta.url).href });
  const data = `${folder}/data`, root = `${folder}/root`;
  await Deno.mkdir(root);
  const keys = `data_dir = ${JSON.stringify(data)}\npath_roots = [${JSON.stringify(root)}]\n`;
  const restart = (changed: TestAppOptions = {}) =>
    testApp({ toml: `${keys}${toml}`, jobs, ...options, ...changed });
  try {
    await body({ ...restart(), data, root, restart });
  } finally {
    await jobs.close();
    await Deno.remove(folder, { recursive: true });
  }
}
