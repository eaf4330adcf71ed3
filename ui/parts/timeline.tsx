/** What an attempt spent its time on. */

import type { TrajectoryMember } from "../../api/types.ts";
import { segmentsOf, type TimeSegment } from "./attempt.ts";
import { millisecondsText } from "./format.ts";

const NAMES: Readonly<Record<TimeSegment["kind"], string>> = {
  queue: "wait for a slot",
  acquire: "environment",
  generate: "model",
  tools: "tools",
  reward: "grading",
};

const HEIGHT = 10;
/** The width of the drawing in its own units; the page stretches it. */
const WIDTH = 1000;

export function Timeline({ member }: { member: TrajectoryMember }) {
  const { queue_ms, acquire_ms, generate_ms, tools_ms, reward_ms } = member.timings;
  const sums = {
    queue: queue_ms,
    acquire: acquire_ms,
    generate: generate_ms,
    tools: tools_ms,
    reward: reward_ms,
  };
  const segments = segmentsOf(member);
  const end = Math.max(...segments.map(({ start_ms, ms }) => start_ms + ms), 1e-9), scale = WIDTH / end;
  const kinds = (Object.keys(NAMES) as TimeSegment["kind"][]).filter((kind) => sums[kind] > 0);
  return (
    <div class="timeline">
      <svg
        viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
        preserveAspectRatio="none"
        height={HEIGHT}
        aria-hidden="true"
      >
        {segments.map(({ kind, start_ms, ms, turn }) => (
          <rect
            key={`${kind} ${start_ms}`}
            class={`time-${kind}`}
            x={start_ms * scale}
            width={Math.max(1, ms * scale)}
            height={HEIGHT}
          >
            <title>
              {`${turn === null ? "" : `turn ${turn + 1}, `}${NAMES[kind]}: ${millisecondsText(ms)}`}
            </title>
          </rect>
        ))}
      </svg>
      <ul aria-label="timings">
        {kinds.map((kind) => (
          <li key={kind}>
            <span class={`swatch time-${kind}`} aria-hidden="true" /> {NAMES[kind]}{" "}
            {millisecondsText(sums[kind])}
          </li>
        ))}
      </ul>
    </div>
  );
}
