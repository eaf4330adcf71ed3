/** Fields of several routes of trajectories. */

import { z } from "zod";
import { integerParameter } from "../http/query.ts";

/** The count in every answer that is read from the files of an observe directory. */
export const skippedLines = z.int().gte(0).meta({
  description:
    "Lines of the files read for this answer that could not be read, such as one that a crash cut off.",
});

/** A query parameter with a number from 0. */
export const wholeNumber = integerParameter(0, 999_999_999);

/** A query parameter with a finite number. */
export const decimalNumber = z.string().regex(/^-?\d+(\.\d+)?([eE][+-]?\d+)?$/, { error: "must be a number" })
  .transform(Number).pipe(z.number());
