/** Asks for the server's token. */

import { useState } from "preact/hooks";
import type { Api } from "../client/api.ts";
import { ApiProblem } from "../client/api.ts";
import type { Session } from "../client/session.ts";
import { ProblemBox } from "../parts/problem.tsx";

export function LoginPage({ api, session }: { api: Api; session: Session }) {
  const [token, setToken] = useState(""), [remember, setRemember] = useState(false);
  const [error, setError] = useState<unknown>(null), [is_busy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (is_busy) return;
    setBusy(true);
    setError(null);
    const given = token.trim();
    try {
      await api.call("GET /v1/capabilities", { headers: { authorization: `Bearer ${given}` } });
      session.logIn(given, { remember });
    } catch (cause) {
      setError(cause);
      setBusy(false);
    }
  };
  const is_wrong = error instanceof ApiProblem && error.problem.status === 401;
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>svc</h1>
        <p>
          This server asks for its token: the value of <code>auth_token</code> in its configuration.
        </p>
        <label class="field">
          <span>Token</span>
          <input
            type="password"
            name="token"
            autocomplete="current-password"
            required
            autofocus
            aria-invalid={is_wrong}
            aria-describedby={is_wrong ? "wrong-token" : undefined}
            value={token}
            onInput={({ currentTarget }) => setToken(currentTarget.value)}
          />
        </label>
        {is_wrong && <p id="wrong-token" class="field-error">This is not the server's token.</p>}
        <label class="check">
          <input
            type="checkbox"
            checked={remember}
            onChange={({ currentTarget }) => setRemember(currentTarget.checked)}
          />
          Remember it in this browser
        </label>
        <button type="submit" class="primary" aria-disabled={is_busy}>Log in</button>
        {error !== null && !is_wrong && <ProblemBox error={error} />}
      </form>
    </main>
  );
}
