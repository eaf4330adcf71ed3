/** Chats of tau2-bench for training (github.com/sierra-research/tau2-bench). */

import { z } from "zod";
import { messagesField } from "../chat_fields.ts";
import type { DatasetSource } from "./source.ts";

const fileSchema = z.looseObject({
  splits: z.record(
    z.string(),
    z.array(z.looseObject({ messages: messagesField, tools: z.array(z.unknown()) })),
  ),
});

type Chats = z.output<typeof fileSchema>;

export const TAU2_BENCH: DatasetSource<Chats> = {
  name: "tau2-bench",
  form: 'a JSON object {"splits": {<name>: [{messages, tools}]}}',
  read(content) {
    return "document" in content ? fileSchema.safeParse(content.document).data ?? null : null;
  },
  splits: ({ splits }) => Object.keys(splits),
  rows: { sft: ({ splits }, split) => splits[split!]! },
};
