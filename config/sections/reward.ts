/** `[agent.reward]` */

import { z } from "zod";
import { command, number, text } from "./fields.ts";

export const rewardSchema = z.strictObject({
  command: command().meta({
    description: "Program that grades attempts, without a shell; it runs as long as the run.",
  }),
  timeout_secs: number("agent.reward.timeout_secs").default(60).meta({
    description: "Limit of one grading, the start of the program included.",
  }),
  cwd: text().optional().meta({
    description: "Its working folder, relative to that of the configuration.",
    rule: "the folder of the configuration",
  }),
});
