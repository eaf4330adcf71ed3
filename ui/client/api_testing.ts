/** A client of the API whose answers a test gives. */

import { Api } from "./api.ts";
import { Session } from "./session.ts";

const NO_STORE = { getItem: () => null, setItem: () => {}, removeItem: () => {} };

/** @param answer Answers a request. @param page The page's address. */
export function apiWith(answer: (request: Request) => Response | Promise<Response>, page = "http://h/") {
  const session = new Session({ tab: NO_STORE, browser: NO_STORE }), requests: Request[] = [];
  const api = new Api({
    session,
    page,
    fetch: async (input, init) => {
      const request = new Request(input as URL, init);
      requests.push(request);
      return await answer(request);
    },
  });
  return { api, session, requests };
}
