/** The files of docs/guides/deployment.md, checked by the programs that read them. */

import assert from "node:assert/strict";
import { parseServerConfig } from "../config/server/load.ts";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";

const GUIDE = await Deno.readTextFile(new URL("../docs/guides/deployment.md", import.meta.url));
const TOKEN = "canary-token";

/** The only block of the guide in a language. */
function block(language: string): string {
  const [found, ...more] = [...GUIDE.matchAll(new RegExp(`^\`\`\`${language}\\n([^]*?)^\`\`\`$`, "gm"))];
  assert.ok(found && more.length === 0, `the guide has one block of ${language}`);
  return found[1]!;
}

async function run(program: string, ...args: string[]): Promise<{ code: number; text: string }> {
  const { code, stdout, stderr } = await new Deno.Command(program, { args }).output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** A test that needs programs; without them it is ignored. */
function testWith(programs: readonly string[], name: string, fn: () => Promise<void>): void {
  const missing = programs.filter((program) => {
    try {
      return !new Deno.Command("sh", { args: ["-c", `command -v ${program}`], stdout: "null" }).outputSync()
        .success;
    } catch {
      return true;
    }
  });
  const because = missing.length > 0 ? ` (skipped: no ${missing.join(", ")})` : "";
  Deno.test({ name: name + because, ignore: missing.length > 0, fn });
}

Deno.test("the configuration of the guide is one", () => {
  const config = parseServerConfig(block("toml"), { path: "/etc/svc/server.toml" });
  assert.deepEqual(config.allowed_hosts, ["svc.example.org"]);
});

testWith(
  ["systemd-analyze"],
  "systemd reads the unit of the guide without a complaint",
  () =>
    withFolder(async (folder) => {
      const path = `${folder}/svc-server.service`;
      // The program need not be installed here.
      await Deno.writeTextFile(path, block("ini").replace("/usr/local/bin/svc-server", "/bin/true"));
      assert.deepEqual(await run("systemd-analyze", "verify", "--recursive-errors=no", path), {
        code: 0,
        text: "",
      });
      await Deno.writeTextFile(path, block("ini").replace("KillMode=mixed", "KilMode=mixed"));
      assert.match((await run("systemd-analyze", "verify", "--recursive-errors=no", path)).text, /KilMode/);
    }),
);

/** The nginx configuration of the guide, with files and ports of this test. */
async function nginxConfig(
  folder: string,
  { port, upstream }: { port: number; upstream: string },
): Promise<string> {
  const [key, certificate] = [`${folder}/key.pem`, `${folder}/cert.pem`];
  const subject = ["-subj", "/CN=svc.example.org", "-days", "1"];
  const extensions = [
    "-addext",
    "subjectAltName=DNS:svc.example.org",
    "-addext",
    "basicConstraints=CA:FALSE",
  ];
  const made = await run(
    ...["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes"] as const,
    ...["-keyout", key, "-out", certificate, ...subject, ...extensions],
  );
  assert.equal(made.code, 0, made.text);
  const site = block("nginx").replace("/etc/letsencrypt/live/svc.example.org/fullchain.pem", certificate)
    .replace("/etc/letsencrypt/live/svc.example.org/privkey.pem", key)
    .replace("/var/log/nginx/svc.log", `${folder}/access.log`)
    .replace("127.0.0.1:8471", upstream).replace("listen 443", `listen 127.0.0.1:${port}`);
  const path = `${folder}/nginx.conf`, temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  await Deno.writeTextFile(
    path,
    `daemon off; pid ${folder}/nginx.pid; error_log ${folder}/error.log; worker_processes 1; events {}\n` +
      `http { ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join(" ")}\n${site}\n}\n`,
  );
  return path;
}

testWith(
  ["nginx", "openssl", "curl"],
  "nginx passes requests, uploads and events on, and logs no query",
  () =>
    withFolder(async (folder) => {
      const config = await serverConfig(
        folder,
        `auth_token = "${TOKEN}"\nallowed_hosts = ["svc.example.org"]`,
      );
      const server = await ServerProcess.start({ config });
      const free = Deno.listen({ hostname: "127.0.0.1", port: 0 }), { port } = free.addr;
      free.close();
      const path = await nginxConfig(folder, { port, upstream: server.url.replace("http://", "") });
      assert.equal(
        (await run("nginx", "-t", "-c", path)).code,
        0,
        (await run("nginx", "-t", "-c", path)).text,
      );
      const nginx = new Deno.Command("nginx", { args: ["-c", path], stdout: "null", stderr: "null" }).spawn();
      const curl = (target: string, ...args: string[]) =>
        run(
          ...[
            "curl",
            "-sS",
            "--insecure",
            "--http1.1",
            "--resolve",
            `svc.example.org:${port}:127.0.0.1`,
          ] as const,
          ...["-H", `Authorization: Bearer ${TOKEN}`, ...args, `https://svc.example.org:${port}${target}`],
        );
      try {
        while ((await curl("/healthz")).code !== 0) {
          // nginx is not listening yet.
        }
        assert.match((await curl("/v1/runs?name=secret")).text, /^\{"runs":\[\],/);
        await Deno.writeTextFile(`${folder}/rows.jsonl`, `{"text":"${"a".repeat(1000)}"}\n`.repeat(3000));
        const upload = [
          "-H",
          "Content-Type: application/x-ndjson",
          "-H",
          "Expect:",
          "-T",
          `${folder}/rows.jsonl`,
        ];
        const uploaded = await curl("/v1/datasets", "-X", "POST", ...upload);
        assert.equal(JSON.parse(uploaded.text).rows, 3000, uploaded.text);
        // The stream has begun although nothing happened yet: nothing is held back.
        const socket = await Deno.connect({ hostname: "127.0.0.1", port });
        const caCerts = [await Deno.readTextFile(`${folder}/cert.pem`)];
        const secure = await Deno.startTls(socket, { hostname: "svc.example.org", caCerts });
        const request =
          `GET /v1/events HTTP/1.1\r\nHost: svc.example.org\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`;
        await secure.write(new TextEncoder().encode(request));
        let text = "";
        const buffer = new Uint8Array(4096);
        while (!text.includes("\r\n\r\n")) {
          const count = await secure.read(buffer) ?? assert.fail(text);
          text += new TextDecoder().decode(buffer.subarray(0, count));
        }
        assert.match(text, /^HTTP\/1\.1 200 [^]*text\/event-stream/);
        assert.ok(!text.includes("\r\n\r\n:"), "it came before the first comment");
        secure.close();
        const log = await Deno.readTextFile(`${folder}/access.log`);
        assert.match(log, /"GET \/v1\/runs" 200 /);
        assert.ok(!/secret|canary/.test(log));
      } finally {
        nginx.kill("SIGTERM");
        await nginx.status;
        await server.stop();
      }
    }),
);
