/** Rows of scenarios. */

import { promptMessages } from "../../../agent/rollout/prompts.ts";
import { parseObject } from "../../../data/jsonl.ts";
import { parseScenario, scenarioParser } from "../../../data/scenario.ts";
import type { TokenOrigin } from "../../../trainer/tokenizer/renderer.ts";
import { chatOf } from "../../session/model_parts.ts";
import { renderRow } from "../rendered_rows.ts";
import type { RowKind } from "../row_kind.ts";

/** A scenario has its prompt, without the tools of an environment. */
export const scenarioRows: RowKind = {
  checker: scenarioParser,
  render(line, { path, parts }) {
    const scenario = parseScenario(parseObject(path, line), { path, line: line.line });
    const ids = renderRow(path, line, () => chatOf(parts).promptTokens(promptMessages(scenario, ""), []));
    const origins = ids.map((): TokenOrigin => "prompt");
    return [{ completion: null, ids, origins, trained: new Uint8Array(ids.length) }];
  },
};
