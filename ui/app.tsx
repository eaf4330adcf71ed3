/** The frame around all pages, and which page an address shows. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Capabilities } from "../api/types.ts";
import type { Api } from "./client/api.ts";
import { ClientProvider } from "./client/context.ts";
import type { Session } from "./client/session.ts";
import { CataloguePage } from "./pages/catalogue.tsx";
import { ComparePage } from "./pages/compare.tsx";
import { DatasetPage } from "./pages/dataset.tsx";
import { DatasetsPage } from "./pages/datasets.tsx";
import { DevicePage } from "./pages/device.tsx";
import { LoginPage } from "./pages/login.tsx";
import { RunPage } from "./pages/run.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { ProblemBox } from "./parts/problem.tsx";
import { hrefOf, place } from "./routes.ts";

interface PageEntry {
  page: ComponentType;
  /** In the navigation; null for pages that others lead to. */
  label: string | null;
}

/** Pages by the first segment of their address. */
const PAGES: Readonly<Record<string, PageEntry>> = {
  runs: { page: RunsPages, label: "Runs" },
  compare: { page: ComparePage, label: "Compare" },
  datasets: { page: DatasetsPages, label: "Datasets" },
  catalogue: { page: CataloguePage, label: "Catalogue" },
  device: { page: DevicePage, label: "Device" },
};

const FIRST_PAGE = "runs";

function RunsPages() {
  const id = place.value.segments[1];
  return id === undefined ? <RunsPage /> : <RunPage key={id} />;
}

function DatasetsPages() {
  const id = place.value.segments[1];
  return id === undefined ? <DatasetsPage /> : <DatasetPage key={id} />;
}

function NotFound() {
  return (
    <div class="empty">
      <h1>There is no such page</h1>
      <a href={hrefOf([FIRST_PAGE])}>All runs</a>
    </div>
  );
}

function Navigation({ current, session, has_token }: {
  current: string;
  session: Session;
  has_token: boolean;
}) {
  return (
    <nav aria-label="pages">
      <a class="brand" href={hrefOf([FIRST_PAGE])}>svc</a>
      <ul>
        {Object.entries(PAGES).map(([name, { label }]) =>
          label !== null && (
            <li key={name}>
              <a href={hrefOf([name])} aria-current={name === current ? "page" : undefined}>{label}</a>
            </li>
          )
        )}
      </ul>
      {has_token && <button type="button" class="plain" onClick={() => session.logOut()}>Log out</button>}
    </nav>
  );
}

/** The interface of one server. */
export function App({ api, session }: { api: Api; session: Session }) {
  const [capabilities, setCapabilities] = useState<Capabilities | null>(null);
  const [error, setError] = useState<unknown>(null), [attempt, setAttempt] = useState(0);
  const is_refused = session.is_refused.value;
  useEffect(() => {
    if (is_refused) return;
    setError(null);
    api.call("GET /v1/capabilities", {}).then(setCapabilities, setError);
  }, [is_refused, attempt]);
  if (is_refused) return <LoginPage api={api} session={session} />;
  if (error !== null) {
    return (
      <main class="alone">
        <ProblemBox error={error} onRetry={() => setAttempt(attempt + 1)} />
      </main>
    );
  }
  if (!capabilities) return <main class="alone loading">Connecting …</main>;
  const current = place.value.segments[0] ?? FIRST_PAGE, Page = PAGES[current]?.page ?? NotFound;
  return (
    <ClientProvider value={{ api, session, capabilities }}>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), focusMain())}>
        Skip to the page
      </a>
      <Navigation current={current} session={session} has_token={capabilities.features.auth} />
      <main id="main" tabIndex={-1}>
        <Page />
      </main>
    </ClientProvider>
  );
}

function focusMain(): void {
  document.getElementById("main")?.focus();
}
