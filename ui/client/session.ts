/** The server's token, kept for this tab or, when asked to, in the browser's storage. */

import { signal } from "@preact/signals";

const KEY = "svc-token";

/** Where a token may be kept. */
export interface TokenStores {
  tab: Pick<Storage, "getItem" | "setItem" | "removeItem">;
  browser: Pick<Storage, "getItem" | "setItem" | "removeItem">;
}

/** The token of this page, and whether the server has asked for another one. */
export class Session {
  /** Null when there is none. */
  readonly token = signal<string | null>(null);
  /** Whether an answer was 401, until a token is given. */
  readonly is_refused = signal(false);
  readonly #stores: TokenStores;

  constructor(stores: TokenStores) {
    this.#stores = stores;
    this.token.value = stores.tab.getItem(KEY) ?? stores.browser.getItem(KEY);
  }

  /** Takes a token. @param remember Keeps it for other tabs, and after the browser is closed. */
  logIn(token: string, { remember }: { remember: boolean }): void {
    this.#forget();
    (remember ? this.#stores.browser : this.#stores.tab).setItem(KEY, token);
    this.token.value = token;
    this.is_refused.value = false;
  }

  /** Forgets the token everywhere. */
  logOut(): void {
    this.#forget();
    this.token.value = null;
    this.is_refused.value = true;
  }

  /** The server does not take the token. */
  refuse(): void {
    this.is_refused.value = true;
  }

  #forget(): void {
    this.#stores.tab.removeItem(KEY);
    this.#stores.browser.removeItem(KEY);
  }
}
