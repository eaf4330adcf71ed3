/** `[observe]` */

import { z } from "zod";
import { OBSERVE_TARGET_UPDATES } from "./defaults.ts";
import { integer, text } from "./fields.ts";

export const observeSchema = z.strictObject({
  directory: text().optional().meta({
    description: "Folder of the exported trajectories, with texts, calls and rewards.",
    rule: '"trajectories" in run.directory',
    example: "trajectories",
    path: "output",
  }),
  every: integer("observe.every").optional().meta({
    description: "Updates from one export of texts to the next; the first and the last always have theirs.",
    rule: `ceil(updates / ${OBSERVE_TARGET_UPDATES})`,
    example: 1,
  }),
  max_text_chars: integer("observe.max_text_chars").default(0).meta({
    description: "Longest text that is exported in full; 0: no limit.",
  }),
});
