/** Bodies that would hold up a careless server are refused at their places. */

import assert from "node:assert/strict";
import { type Bomb, jsonBombs, tomlBombs } from "../../tests/bombs.ts";
import { testApp } from "../app_testing.ts";

async function assertRefused({ name, type, body, status, errors, message }: Bomb): Promise<void> {
  const { send, logged } = testApp();
  const sent = await send("/v1/plan", { method: "POST", body, headers: { "content-type": type } });
  assert.equal(sent.status, status, `${name}: ${sent.body.slice(0, 500)}`);
  const found = sent.json.errors.map(({ pointer, code }: Record<string, string>) => `${pointer} ${code}`);
  const expected = errors.replace(/…$/, "");
  if (errors === expected) assert.deepEqual(found, [expected], name);
  else assert.ok(expected === "" || found.includes(expected), `${name}: ${found.join(", ").slice(0, 500)}`);
  if (message) assert.match(sent.json.errors[0].message, message, name);
  assert.deepEqual(logged, [], name);
}

for (const [kind, bombs] of Object.entries({ JSON: jsonBombs, TOML: tomlBombs })) {
  Deno.test(`${kind} that is deep, long, ambiguous or no ${kind} is refused at its place`, async () => {
    for (const bomb of bombs()) await assertRefused(bomb);
  });
}
