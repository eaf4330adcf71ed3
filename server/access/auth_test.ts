import assert from "node:assert/strict";
import { callerProblem, isHostAllowed, isOriginAllowed, isTokenRight } from "./auth.ts";

const RULES = {
  bind: "127.0.0.2:8471",
  allowed_hosts: ["svc.example.org", "lab.example.org:8443"],
  port: 8471,
};

Deno.test("hosts: loopback names always, listed names at their port, nothing else", () => {
  const allowed = [
    "localhost",
    "localhost:8471",
    "LOCALHOST:9000",
    "127.0.0.1:8471",
    "[::1]:8471",
    "127.0.0.2:8471",
    "127.0.0.2",
    "svc.example.org",
    "svc.example.org:443",
    "SVC.example.org:8471",
    "lab.example.org:8443",
  ];
  const refused = [
    "",
    "evil.com",
    "localhost.evil.com",
    "127.0.0.1.nip.io",
    "127.0.0.3:8471",
    "127.0.0.2.nip.io",
    "0.0.0.0:8471",
    "2130706433",
    "localhost.",
    "svc.example.org:9999",
    "svc.example.org.evil.com",
    "lab.example.org",
    "lab.example.org:80",
    "a b<>",
    "localhost:8471, evil.com",
    "user@localhost",
  ];
  for (const host of allowed) assert.ok(isHostAllowed(host, RULES), host);
  for (const host of refused) assert.ok(!isHostAllowed(host, RULES), host);
  for (
    const [bind, host] of [["10.0.0.5:8471", "10.0.0.5:8471"], ["0.0.0.0:8471", "0.0.0.0:8471"]] as const
  ) {
    assert.ok(!isHostAllowed(host, { ...RULES, bind }), "beyond loopback every name is listed");
  }
});

Deno.test("browsers' requests from another site may read and not write, unless their Origin is listed", () => {
  const problem = (fetch_site: string | undefined, method: string, origin?: string) =>
    callerProblem(
      { hosts: ["localhost:8471"], target: "/v1/runs", origin, method, fetch_site },
      RULES,
    );
  for (const method of ["POST", "PATCH", "DELETE", "PUT"]) {
    assert.match(problem("cross-site", method)!, /Another site's page/, method);
    assert.match(problem("cross-site", method, "http://localhost:8471")!, /Another site's page/, method);
    assert.equal(problem("cross-site", method, "https://svc.example.org"), null, method);
    for (const site of ["same-origin", "same-site", "none", undefined]) {
      assert.equal(problem(site, method), null, `${method} ${site}`);
    }
  }
  // A link on another page, and a preflight, which has an Origin of its own.
  for (const method of ["GET", "HEAD", "OPTIONS"]) assert.equal(problem("cross-site", method), null, method);
});

Deno.test("origins: the server's own and listed ones; another port of loopback is another origin", () => {
  const allowed: [string, string][] = [
    ["http://localhost:8471", "localhost:8471"],
    ["http://127.0.0.1:9000", "127.0.0.1:9000"],
    ["http://localhost", "localhost:80"],
    ["https://svc.example.org", "svc.example.org"],
    ["https://lab.example.org:8443", "lab.example.org:8443"],
  ];
  const refused: [string, string][] = [
    ["http://localhost:3000", "localhost:8471"],
    ["http://127.0.0.1:8471", "localhost:8471"],
    ["https://localhost:8471", "localhost:8471"],
    ["null", "localhost:8471"],
    ["", "localhost:8471"],
    ["http://evil.com", "localhost:8471"],
    ["http://localhost:8471.evil.com", "localhost:8471"],
    ["http://localhost:8471/", "localhost:8471"],
    ["https://svc.example.org:9999", "svc.example.org"],
  ];
  for (const [origin, host] of allowed) assert.ok(isOriginAllowed(origin, host, RULES), origin);
  for (const [origin, host] of refused) assert.ok(!isOriginAllowed(origin, host, RULES), origin);
});

Deno.test("one Host header, and a full URL as target must agree with it", () => {
  const problem = (hosts: string[], target = "/v1/health", origin?: string) =>
    callerProblem({ hosts, target, origin, method: "GET", fetch_site: undefined }, RULES);
  assert.equal(problem(["localhost:8471"]), null);
  assert.match(problem([])!, /one Host header/);
  assert.match(problem(["localhost", "localhost"])!, /one Host header/);
  assert.equal(problem(["localhost:8471"], "http://localhost:8471/v1/health"), null);
  assert.match(problem(["localhost:8471"], "http://evil.com/v1/health")!, /different hosts/);
  assert.match(problem(["localhost:8471"], "evil")!, /different hosts/);
  assert.match(problem(["localhost:8471"], "/", "http://evil.com")!, /Another site's page/);
});

Deno.test("tokens are compared by their SHA-256 digests, once, by the function for that", () => {
  // Of "s3cret" and of "s", by sha256sum.
  const right = "1ec1c26b50d5d3c58d9583181af8076655fe00756bf7285940ba3670f99fcba0";
  const wrong = "043a718774c572bd8a25adbeb1bfcd5c0256ae11cecf9f9c3f925d0e52beaf89";
  for (const verdict of [true, false]) {
    for (const [given, digest] of [["s3cret", right], ["s", wrong]] as const) {
      const compared: string[][] = [];
      const equal = (a: Uint8Array, b: Uint8Array) => {
        compared.push([a.toHex(), b.toHex()]);
        return verdict;
      };
      assert.equal(isTokenRight(`Bearer ${given}`, "s3cret", equal), verdict);
      assert.deepEqual(compared, [[digest, right]]);
    }
  }
});

Deno.test("tokens: the scheme in any case, the token exactly", () => {
  assert.ok(isTokenRight("Bearer s3cret", "s3cret"));
  assert.ok(isTokenRight("bearer  s3cret ", "s3cret"));
  for (
    const header of [undefined, "", "Bearer", "Bearer ", "Basic s3cret", "Bearer s3cre", "Bearer s3cret x"]
  ) {
    assert.ok(!isTokenRight(header, "s3cret"), header);
  }
});
