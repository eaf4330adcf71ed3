/** The `svc` of the server in this folder: its runs are processes on a scripted engine. */

import { runScripted } from "../scripted_run.ts";

await runScripted();
