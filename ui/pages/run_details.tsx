/** What people call a run: its name, tags and notes. */

import { useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import { useClient } from "../client/context.ts";
import { useAction } from "../parts/actions.ts";
import { ProblemBox } from "../parts/problem.tsx";
import { TextField } from "../parts/text_field.tsx";
import { tagsOf } from "./run_commands.ts";

export function DetailsForm({ run, onSaved, onClose }: {
  run: Run;
  onSaved(): Promise<unknown>;
  onClose(): void;
}) {
  const { api } = useClient(), action = useAction();
  const [given, setGiven] = useState({ name: run.name, tags: run.tags.join(", "), notes: run.notes });
  const set = (field: keyof typeof given) => (text: string) => setGiven({ ...given, [field]: text });
  const submit = (event: Event) => {
    event.preventDefault();
    const body = { name: given.name.trim(), tags: tagsOf(given.tags), notes: given.notes };
    action.start(async () => {
      await api.call("PATCH /v1/runs/{id}", { params: { id: run.id }, body });
      await onSaved();
      onClose();
    });
  };
  return (
    <form class="checkpoint-form run-details" aria-label="details of the run" onSubmit={submit}>
      <div class="inline">
        <TextField label="Name" value={given.name} onText={set("name")} size={30} required />
        <TextField
          label="Tags"
          value={given.tags}
          onText={set("tags")}
          size={30}
          placeholder="lr sweep, night"
        />
      </div>
      <label class="field">
        <span>Notes</span>
        <textarea
          rows={3}
          value={given.notes}
          onInput={({ currentTarget }) => set("notes")(currentTarget.value)}
        />
      </label>
      {action.error !== null && <ProblemBox error={action.error} />}
      <div class="inline">
        <button type="submit" class="primary" aria-disabled={action.is_busy}>Save</button>
        <button type="button" onClick={onClose}>Close</button>
      </div>
    </form>
  );
}
