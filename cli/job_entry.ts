/** The program's entry as a process of jobs. */

import { JOB_COMMAND } from "../runs/jobs/job_command.ts";

/** Whether this process was started for jobs. It has no permission to ask for anything else. */
export function isJobProcess(): boolean {
  return Deno.args.length === 1 && Deno.args[0] === JOB_COMMAND;
}

/** Answers jobs until the server closes the pipe. */
export async function serveJobProcess(): Promise<void> {
  const { serveJobs } = await import("../runs/jobs/serve_jobs.ts");
  await serveJobs();
}
