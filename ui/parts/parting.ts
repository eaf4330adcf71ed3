/** Which part of a turn shows where two attempts part. */

import type { TrajectoryDiff, TrajectoryMember, TrajectoryTurn } from "../../api/types.ts";
import type { Parting } from "./conversation.tsx";
import { marksOf } from "./difference.ts";

const NOTHING: Parting = { text: null, result: null };

function turnAt({ turns }: TrajectoryMember, turn: number): TrajectoryTurn | undefined {
  return turns.find((each) => each.turn === turn);
}

/**
 * The marks in the turn in which two attempts part, as the server found it: in the model's text if that differs, else in
 * the first result that does.
 *
 * @returns Null when they do not part in a turn of both.
 */
export function partingsOf(
  a: TrajectoryMember,
  b: TrajectoryMember,
  { turn, a_token, b_token }: Pick<TrajectoryDiff, "turn" | "a_token" | "b_token">,
): [Parting, Parting] | null {
  if (turn === null) return null;
  const of_a = turnAt(a, turn), of_b = turnAt(b, turn);
  if (!of_a || !of_b) return null;
  const tokens = [a_token?.text ?? null, b_token?.text ?? null] as const;
  const texts = marksOf(of_a.text ?? "", of_b.text ?? "", tokens);
  if (texts) return [{ text: texts[0], result: null }, { text: texts[1], result: null }];
  for (const [i, { index, result }] of (of_a.calls ?? []).entries()) {
    const other = of_b.calls?.[i], marks = marksOf(result ?? "", other?.result ?? "", tokens);
    if (!marks) continue;
    return [
      { text: null, result: { index, mark: marks[0] } },
      { text: null, result: other ? { index: other.index, mark: marks[1] } : null },
    ];
  }
  return [NOTHING, NOTHING];
}
