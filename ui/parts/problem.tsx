/** What went wrong, for people: the problem document of the server, or a server that is away. */

import { ApiProblem, Unreachable } from "../client/api.ts";
import { place } from "../routes.ts";
import { missingOf, ownDetail, waysBack } from "./problem.ts";

/** Says that what the address names is not there, and where to go from here: to ask again would not help. */
function Missing({ what }: { what: string }) {
  return (
    <div class="problem" role="alert">
      <h3>{what}</h3>
      <p>It may have been deleted, or the address is not right.</p>
      <p class="ways-back">
        {waysBack(place.value.segments).map(({ href, label }) => <a key={href} href={href}>{label}</a>)}
      </p>
    </div>
  );
}

/** Shows an error with the places, hints and the trace id that the server gave. */
export function ProblemBox(
  { error, onRetry, onClose }: { error: unknown; onRetry?: () => void; onClose?: () => void },
) {
  const problem = error instanceof ApiProblem ? error.problem : null, missing = problem && missingOf(problem);
  if (missing !== null && !onClose) return <Missing what={missing} />;
  const title = problem?.title ?? (error instanceof Unreachable ? "The server does not answer" : "Error");
  const detail = problem
    ? ownDetail(problem)
    : error instanceof Unreachable
    ? "It may be restarting. Nothing is lost: runs go on without this page."
    : String((error as Error)?.message ?? error);
  return (
    <div class="problem" role="alert">
      <h3>{title}</h3>
      {detail !== null && <p>{detail}</p>}
      {problem && problem.errors.length > 0 && (
        <ul>
          {problem.errors.map(({ pointer, message, hint }) => (
            <li key={`${pointer} ${message}`}>
              {pointer !== "" && <code>{pointer}</code>} {message}
              {hint !== undefined && <span class="hint">{hint}</span>}
            </li>
          ))}
        </ul>
      )}
      {problem && problem.trace_id !== "" && (
        <p class="quiet">
          trace <code>{problem.trace_id}</code>
        </p>
      )}
      {onRetry && <button type="button" onClick={onRetry}>Try again</button>}
      {onClose && <button type="button" onClick={onClose}>Close</button>}
    </div>
  );
}
