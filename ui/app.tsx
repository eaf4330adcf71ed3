/** The frame around all pages, and which page an address shows. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Capabilities } from "../api/types.ts";
import type { Api } from "./client/api.ts";
import { ClientProvider } from "./client/context.ts";
import { isViewed } from "./client/live_run.ts";
import type { Session } from "./client/session.ts";
import { CataloguePage } from "./pages/catalogue.tsx";
import { ComparePage } from "./pages/compare.tsx";
import { DatasetPage } from "./pages/dataset.tsx";
import { DatasetsPage } from "./pages/datasets.tsx";
import { DevicePage } from "./pages/device.tsx";
import { LoginPage } from "./pages/login.tsx";
import { NewRunPage } from "./pages/new_run.tsx";
import { RunPage } from "./pages/run.tsx";
import { RunsPage } from "./pages/runs.tsx";
import { usePageFocus } from "./parts/page_focus.ts";
import { ProblemBox } from "./parts/problem.tsx";
import { hrefOf, place } from "./routes.ts";

interface PageEntry {
  page: ComponentType;
  /** In the navigation; null for pages that others lead to. */
  label: string | null;
  /** Whether view mode has it too: that shows one run from its files. */
  in_view_mode?: true;
}

/** What the page has to know before it shows anything. */
interface Server {
  capabilities: Capabilities;
  is_in_view_mode: boolean;
}

/** Asks what the server is. */
async function findServer(api: Api): Promise<Server> {
  const [capabilities, { runs }] = await Promise.all([
    api.call("GET /v1/capabilities", {}),
    api.call("GET /v1/runs", { query: { limit: 1 } }),
  ]);
  return { capabilities, is_in_view_mode: runs.some(isViewed) };
}

/** Pages by the first segment of their address. */
const PAGES: Readonly<Record<string, PageEntry>> = {
  runs: { page: RunsPages, label: "Runs", in_view_mode: true },
  new: { page: NewRunPage, label: "New run" },
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
    <>
      <header class="page-head">
        <h1>There is no such page</h1>
      </header>
      <a href={hrefOf([FIRST_PAGE])}>All runs</a>
    </>
  );
}

/** What stands in the place of a page that only a server of runs has. */
function NotInViewMode() {
  return (
    <>
      <header class="page-head">
        <h1>View mode does not have this page</h1>
      </header>
      <p>It shows one run from the files that the run exported.</p>
      <a href={hrefOf([FIRST_PAGE])}>The run</a>
    </>
  );
}

/** The title of a page's tab. */
function titleOf(name: string): string {
  const label = Object.hasOwn(PAGES, name) ? PAGES[name]!.label : null;
  return label === null ? "svc" : `${label} · svc`;
}

/** The page of an address. */
function pageOf(name: string, is_in_view_mode: boolean): ComponentType {
  const entry = Object.hasOwn(PAGES, name) ? PAGES[name]! : null;
  if (!entry) return NotFound;
  return is_in_view_mode && !entry.in_view_mode ? NotInViewMode : entry.page;
}

/** The page, and the focus on its heading when it is another one. */
function Main({ page: Page }: { page: ComponentType }) {
  const { segments } = place.value;
  usePageFocus(segments.slice(0, 2).join("/"), segments.join("/"));
  return (
    <main id="main" tabIndex={-1}>
      <Page />
    </main>
  );
}

function Navigation({ current, session, server: { capabilities, is_in_view_mode } }: {
  current: string;
  session: Session;
  server: Server;
}) {
  return (
    <nav aria-label="pages">
      <a class="brand" href={hrefOf([FIRST_PAGE])}>svc</a>
      <ul>
        {Object.entries(PAGES).map(([name, { label, in_view_mode }]) =>
          label !== null && (in_view_mode || !is_in_view_mode) && (
            <li key={name}>
              <a href={hrefOf([name])} aria-current={name === current ? "page" : undefined}>{label}</a>
            </li>
          )
        )}
      </ul>
      {capabilities.features.auth && (
        <button type="button" class="plain" onClick={() => session.logOut()}>Log out</button>
      )}
    </nav>
  );
}

/** The interface of one server. */
export function App({ api, session }: { api: Api; session: Session }) {
  const [server, setServer] = useState<Server | null>(null);
  const [error, setError] = useState<unknown>(null), [attempt, setAttempt] = useState(0);
  const is_refused = session.is_refused.value;
  useEffect(() => {
    if (is_refused) return;
    setError(null);
    findServer(api).then(setServer, setError);
  }, [is_refused, attempt]);
  const current = place.value.segments[0] ?? FIRST_PAGE;
  useEffect(() => {
    document.title = titleOf(current);
  }, [current]);
  if (is_refused) return <LoginPage api={api} session={session} />;
  if (error !== null) {
    return (
      <main class="alone">
        <ProblemBox error={error} onRetry={() => setAttempt(attempt + 1)} />
      </main>
    );
  }
  if (!server) return <main class="alone loading">Connecting …</main>;
  const { capabilities, is_in_view_mode } = server;
  return (
    <ClientProvider value={{ api, session, capabilities }}>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), focusMain())}>
        Skip to the page
      </a>
      <Navigation current={current} session={session} server={server} />
      <Main page={pageOf(current, is_in_view_mode)} />
    </ClientProvider>
  );
}

function focusMain(): void {
  document.getElementById("main")?.focus();
}
