/** What the server refuses of a small form: at its fields where it names them. */

import { useEffect, useId, useRef } from "preact/hooks";
import type { ProblemError } from "../../api/types.ts";
import { ApiProblem } from "../client/api.ts";
import { ProblemBox } from "../parts/problem.tsx";

/** Which fields are refused, and why. */
export interface Refusals {
  /** The id of the text that says why a field is refused; undefined for one that is not. */
  by(pointer: string): string | undefined;
  /** What is refused with the labels of the fields; null when not all of it is about fields. */
  listed: readonly (ProblemError & { label: string })[] | null;
  id: string;
}

/** The refusals of an error. @param fields Labels by pointer. */
export function refusalsOf(error: unknown, { fields, id }: {
  fields: Readonly<Record<string, string>>;
  id: string;
}): Refusals {
  const errors = error instanceof ApiProblem ? error.problem.errors : [];
  const own = ({ pointer }: ProblemError) =>
    Object.keys(fields).find((field) => pointer === field || pointer.startsWith(`${field}/`));
  const listed = errors.flatMap((error) => {
    const field = own(error);
    return field === undefined ? [] : [{ ...error, label: fields[field]! }];
  });
  return {
    by: (field) => errors.some((error) => own(error) === field) ? id : undefined,
    listed: listed.length > 0 && listed.length === errors.length ? listed : null,
    id,
  };
}

export function useRefusals(error: unknown, fields: Readonly<Record<string, string>>): Refusals {
  return refusalsOf(error, { fields, id: useId() });
}

/** Says why; the first refused field of the form gets the focus. @param keeps_focus Leaves the focus where it is. */
export function FormProblem({ refusals: { listed, id }, error, keeps_focus = false }: {
  refusals: Refusals;
  error: unknown;
  keeps_focus?: boolean;
}) {
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const wrong = box.current?.closest("form")?.querySelector<HTMLElement>('[aria-invalid="true"]');
    if (error !== null && !keeps_focus) wrong?.focus();
  }, [error, keeps_focus]);
  return (
    <div ref={box} id={id}>
      {listed
        ? (
          <ul class="form-problem field-error" role="alert">
            {listed.map(({ label, message, hint }) => (
              <li key={`${label} ${message}`}>{label}: {message}{hint !== undefined && `; ${hint}`}</li>
            ))}
          </ul>
        )
        : error !== null && <ProblemBox error={error} />}
    </div>
  );
}
