import assert from "node:assert/strict";
import { Session } from "./session.ts";

class Store {
  readonly values = new Map<string, string>();
  getItem = (key: string) => this.values.get(key) ?? null;
  setItem = (key: string, value: string) => void this.values.set(key, value);
  removeItem = (key: string) => void this.values.delete(key);
}

Deno.test("a token is kept for the tab, or for the browser when asked, and never in both", () => {
  const tab = new Store(), browser = new Store(), session = new Session({ tab, browser });
  assert.equal(session.token.value, null);
  session.logIn("one", { remember: false });
  assert.deepEqual([[...tab.values.values()], browser.values.size], [["one"], 0]);
  session.logIn("two", { remember: true });
  assert.deepEqual([tab.values.size, [...browser.values.values()]], [0, ["two"]]);
  assert.equal(new Session({ tab, browser }).token.value, "two");
});

Deno.test("logging out forgets the token everywhere and asks for one", () => {
  const tab = new Store(), browser = new Store(), session = new Session({ tab, browser });
  session.logIn("one", { remember: true });
  assert.equal(session.is_refused.value, false);
  session.logOut();
  assert.deepEqual([session.token.value, session.is_refused.value, browser.values.size], [null, true, 0]);
});
