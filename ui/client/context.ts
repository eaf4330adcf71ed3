/** What every page has: the API, the token and what the server can do. */

import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Capabilities } from "../../api/types.ts";
import type { Api } from "./api.ts";
import type { Session } from "./session.ts";

/** The client side of one server. */
export interface Client {
  api: Api;
  session: Session;
  capabilities: Capabilities;
}

const ClientContext = createContext<Client | null>(null);

export const ClientProvider = ClientContext.Provider;

/** The client of this page. @throws {Error} Outside of {@link ClientProvider}. */
export function useClient(): Client {
  const client = useContext(ClientContext);
  if (!client) throw new Error("There is no client here");
  return client;
}
