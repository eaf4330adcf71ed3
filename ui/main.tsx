/** Starts the interface. */

import { render } from "preact";
import { App } from "./app.tsx";
import { Api } from "./client/api.ts";
import { Session } from "./client/session.ts";
import { followAddress } from "./routes.ts";

const session = new Session({ tab: sessionStorage, browser: localStorage });
const api = new Api({ session, page: document.baseURI });
followAddress();
render(<App api={api} session={session} />, document.getElementById("app")!);
