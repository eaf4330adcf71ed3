/** An attempt for other programs: as a text, and as the server's JSON. */

import type { TrajectoryGroup } from "../../api/types.ts";
import { CopyButton } from "../parts/copy_button.tsx";
import { transcriptOf } from "../parts/transcript.ts";
import type { GroupPlace } from "./trajectory_places.ts";

/** Lets the browser save a text as a file. */
function save(text: string, name: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  URL.revokeObjectURL(url);
}

interface AttemptCopiesProps {
  at: GroupPlace;
  /** With one attempt. */
  answer: TrajectoryGroup;
}

export function AttemptCopies({ at: { id, update, group }, answer }: AttemptCopiesProps) {
  const [member] = answer.members, json = JSON.stringify(answer, null, 2);
  if (!member) return null;
  return (
    <div class="copies" role="group" aria-label="copies of this attempt">
      {member.messages && <CopyButton label="Copy as text" what="" text={transcriptOf(member)} />}
      <CopyButton label="Copy as JSON" what="" text={json} />
      <button
        type="button"
        onClick={() => save(json, `${id}_update_${update}_group_${group}_attempt_${member.member}.json`)}
      >
        Download JSON
      </button>
    </div>
  );
}
