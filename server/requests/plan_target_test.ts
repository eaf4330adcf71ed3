import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { Problem } from "../http/problems.ts";
import { planTarget } from "./plan_target.ts";

Deno.test("without a device the answer says what to do, and does not ask to try again", async () => {
  const config = parseServerConfig("", { path: "/etc/svc/server.toml" });
  const services = { config, devices: () => Promise.resolve([]), assumed_device: null };
  await assert.rejects(planTarget(services, {}), (error) => {
    assert.ok(error instanceof Problem);
    assert.deepEqual([error.type, error.errors, error.headers], ["device-busy", [], {}]);
    assert.match(error.message, /no device.*`svc doctor`/);
    return true;
  });
});
