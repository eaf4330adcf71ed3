/** Which texts in the lines of a run's files are prose of this program, and which are not ({@link TEXTS}). */

import { z } from "zod";
import {
  groupFactsSchema,
  groupTextsSchema,
  indexedGroupSchema,
  memberTextsSchema,
  observedUpdateSchema,
} from "../../agent/results/observed.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";

const named = z.looseObject({ scenario: z.string().meta(TEXTS.data) });

/** An event. */
export const eventTexts = z.looseObject({
  groups: z.array(named).optional(),
  scenarios: z.array(named).optional(),
  failure: named.nullable().optional(),
  plot: z.string().nullable().optional().meta(TEXTS.data),
});

/** A line of a file in an observe directory. */
export const observedTexts = z.looseObject({
  facts: groupFactsSchema.optional(),
  texts: z.looseObject({ ...groupTextsSchema.shape, ...memberTextsSchema.shape }).optional(),
  part: z.unknown().meta(TEXTS.data),
  run_name: observedUpdateSchema.shape.run_name.optional(),
  groups: z.array(indexedGroupSchema).optional(),
});
