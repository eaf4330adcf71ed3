/** Runs ./dev in a folder with its own search path, where Deno, npm and apt-get are scripts that may fail. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** Tools that ./dev expects on every machine. */
const BASIC_TOOLS = ["sh", "sed", "mkdir", "rm", "cat", "dirname", "date", "cmp", "cp"];

interface Machine {
  /** Scripts by name; {@link fakeDeno} answers `deno --version` and the probe. */
  tools: Record<string, string>;
  user: "root" | "nobody";
}

/** A Deno that reports a version and whether it sees an adapter, and prints its other arguments. */
function fakeDeno(version: string, sees_adapter = "true"): string {
  return `case $1 in
  --version) echo "deno ${version} (stable)" ;;
  eval) if ${sees_adapter}; then echo "Fake GPU"; else exit 1; fi ;;
  *) echo "ran: $*"; env | grep -E '^(REQUIRE_GPU|DENO_WEBGPU_BACKEND|SETUP_SECONDS|SVC_COMMAND)=' | sort ;;
esac`;
}

interface Outcome {
  code: number;
  out: string;
  err: string;
}

/** Runs `body` with a function that calls ./dev on such a machine. */
async function onMachine(
  { tools, user }: Machine,
  body: (dev: (...args: string[]) => Promise<Outcome>, root: string) => Promise<void>,
): Promise<void> {
  const root = await Deno.realPath(await Deno.makeTempDir());
  const bin = `${root}/bin`;
  try {
    await Deno.mkdir(bin);
    for (const name of ["dev", ".deno-version"]) await Deno.copyFile(ROOT + name, `${root}/${name}`);
    const { stdout } = await new Deno.Command("sh", {
      args: ["-c", BASIC_TOOLS.concat("env", "grep", "sort").map((tool) => `command -v ${tool}`).join(";")],
    }).output();
    for (const path of new TextDecoder().decode(stdout).trim().split("\n")) {
      await Deno.symlink(path, `${bin}/${path.split("/").at(-1)}`);
    }
    const system = {
      uname: '[ "$1" = -s ] && echo Linux || echo riscv',
      id: user === "root" ? "echo 0" : "echo 1000",
    };
    for (const [name, script] of Object.entries({ ...system, ...tools })) {
      await Deno.writeTextFile(`${bin}/${name}`, `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    }
    await body(async (...args) => {
      const { code, stdout, stderr } = await new Deno.Command(`${root}/dev`, {
        args,
        cwd: "/",
        clearEnv: true,
        env: { PATH: bin },
      }).output();
      const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes).replaceAll(root, "<root>");
      return { code, out: decode(stdout), err: decode(stderr) };
    }, root);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

const version = (await Deno.readTextFile(`${ROOT}.deno-version`)).trim();
const sanitize = { sanitizeOps: true, sanitizeResources: true, ignore: Deno.build.os === "windows" };

Deno.test({
  name: "dev: with Deno and an adapter at hand nothing is installed",
  ...sanitize,
  async fn() {
    await onMachine({ tools: { deno: fakeDeno(version) }, user: "nobody" }, async (dev, root) => {
      const demo = await dev("demo", "--json");
      assert.equal(demo.code, 0);
      assert.match(
        demo.out,
        /^ran: run --config <root>\/deno\.json -A <root>\/cli\.ts train <root>\/examples\/tiny_agent_grpo\.toml --force --json\n/,
      );
      assert.match(demo.out, /DENO_WEBGPU_BACKEND=vulkan/);
      assert.match(demo.err, /WebGPU adapter: Fake GPU/);
      assert.equal((await Deno.stat(`${root}/.cache/runtime`)).mode! & 0o777, 0o700);
      const svc = await dev("svc", "doctor", "two words");
      assert.match(svc.out, /^ran: run --config <root>\/deno\.json -A <root>\/cli\.ts doctor two words\n/);
      assert.equal(svc.err, "");
      const test = await dev("test", "kernels/rope");
      assert.match(
        test.out,
        /^ran: run --config <root>\/deno\.json -A <root>\/scripts\/ok\.ts kernels\/rope\n/,
      );
      assert.match(test.out, /REQUIRE_GPU=1\nSETUP_SECONDS=\d+/);
    });
  },
});

Deno.test({
  name: "dev: a server is started after its interface was built from the newest sources",
  ...sanitize,
  async fn() {
    await onMachine({ tools: { deno: fakeDeno(version) }, user: "nobody" }, async (dev) => {
      const built = /ran: run --config <root>\/deno\.json -A <root>\/scripts\/build_ui\.ts --when-changed\n/;
      const program = "ran: run --config <root>/deno.json -A <root>";
      const serve = await dev("serve", "my server.toml");
      assert.match(serve.err, built);
      assert.ok(serve.out.startsWith(`${program}/scripts/serve.ts my server.toml\n`), serve.out);
      const view = await dev("svc", "server", "view", "t", "--open");
      assert.match(view.err, built);
      assert.ok(view.out.startsWith(`${program}/cli.ts server view t --open\n`), view.out);
      assert.match((await dev("help")).out, /\.\/dev serve \[server\.toml\]/);
    });
    await onMachine({
      tools: { deno: `case $* in *build_ui*) exit 1 ;; esac\n${fakeDeno(version)}` },
      user: "nobody",
    }, async (dev) => {
      const { code, out } = await dev("serve");
      assert.deepEqual([code, out], [1, ""]);
    });
  },
});

Deno.test({
  name: "dev: Chromium is installed for the tests as root; otherwise its command is printed, and they go on",
  ...sanitize,
  async fn() {
    const install = "apt-get install -y --no-install-recommends chromium";
    const installed = `"$(dirname "$0")"/chromium`;
    const tools = {
      deno: fakeDeno(version),
      ...Object.fromEntries(["bwrap", "podman", "runc", "mmdebstrap"].map((name) => [name, "exit 0"])),
      "apt-get": `case $* in *chromium*) echo "exit 0" >${installed}; chmod +x ${installed} ;; esac`,
      chmod: 'exec /bin/chmod "$@"',
    };
    await onMachine({ tools, user: "root" }, async (dev) => {
      assert.match((await dev("test")).err, /installing Chromium for the tests\n/);
      const again = await dev("test");
      assert.doesNotMatch(again.err, /Chromium/);
      assert.match(again.out, /scripts\/ok\.ts\n/);
    });
    await onMachine({ tools, user: "nobody" }, async (dev) => {
      const { code, err } = await dev("test");
      assert.equal(code, 0);
      assert.ok(err.includes(`in a browser are skipped: sudo sh -c '${install}'`), err);
    });
  },
});

Deno.test({
  name: "dev: the program gets its own command, quoted for a shell",
  ...sanitize,
  async fn() {
    await onMachine({ tools: { deno: fakeDeno(version) }, user: "nobody" }, async (_, root) => {
      await Deno.symlink(root, `${root}/it's here`);
      for (
        const [line, told] of [
          ["./dev svc", "./dev svc"],
          ["./dev demo", "./dev svc"],
          ["sh dev svc", "./dev svc"],
          [`"./it's here/dev" svc`, "'./it'\\''s here/dev' svc"],
        ]
      ) {
        const { stdout } = await new Deno.Command("sh", {
          args: ["-c", line!],
          cwd: root,
          clearEnv: true,
          env: { PATH: `${root}/bin` },
        }).output();
        const out = new TextDecoder().decode(stdout).split("\n");
        assert.ok(out.includes(`SVC_COMMAND=${told}`), `${line}: ${out}`);
      }
    });
  },
});

Deno.test({
  name: "dev: another Deno version is left alone and the pinned one comes from npm",
  ...sanitize,
  async fn() {
    const npm = `[ "$1" = install ] || exit 9
while [ "$1" != --prefix ]; do shift; done
mkdir -p "$2/node_modules/@deno/linux-riscv"
cp ${"$"}(dirname "$0")/fake_deno "$2/node_modules/@deno/linux-riscv/deno"
echo "npm asked for $*" >&2`;
    const tools = { deno: fakeDeno("1.0.0"), fake_deno: fakeDeno(version), npm };
    await onMachine({ tools, user: "nobody" }, async (dev) => {
      const first = await dev("setup");
      assert.equal(first.code, 0, first.err);
      assert.match(first.err, new RegExp(`installing Deno ${version} from npm into \\.cache/deno`));
      assert.match(first.err, new RegExp(`npm asked for .*--ignore-scripts .*deno@${version}`));
      assert.match(first.err, /at <root>\/\.cache\/deno\/node_modules\/@deno\/linux-riscv\/deno/);
      const second = await dev("setup");
      assert.doesNotMatch(second.err, /installing/);
    });
    await onMachine({ tools: { npm: "exit 0" }, user: "nobody" }, async (dev) => {
      const { code, err } = await dev("setup");
      assert.equal(code, 1);
      assert.match(err, /the npm package holds no binary that runs on Linux riscv/);
    });
  },
});

Deno.test({
  name: "dev: as root the software driver is installed; without root the one command is printed, exit 3",
  ...sanitize,
  async fn() {
    const install = "apt-get install -y --no-install-recommends libvulkan1 mesa-vulkan-drivers";
    const driver = `"$(dirname "$0")"/../driver`;
    const tools = {
      deno: fakeDeno(version, `[ -e ${driver} ]`),
      "apt-get": `echo "$*" >>"$(dirname "$0")/../asked"; [ "$1" = install ] && : >${driver}; exit 0`,
    };
    await onMachine({ tools, user: "root" }, async (dev, root) => {
      const { code, err } = await dev("setup");
      assert.equal(code, 0, err);
      assert.match(err, /installing a software Vulkan driver/);
      assert.equal(
        await Deno.readTextFile(`${root}/asked`),
        "update -qq\ninstall -y --no-install-recommends libvulkan1 mesa-vulkan-drivers -qq\n",
      );
      assert.doesNotMatch((await dev("setup")).err, /installing/);
    });
    await onMachine({ tools, user: "nobody" }, async (dev) => {
      const { code, out, err } = await dev("demo");
      assert.deepEqual([code, out], [3, ""]);
      assert.ok(err.endsWith(`  sudo sh -c 'apt-get update && ${install}'\n`), err);
      const test = await dev("test");
      assert.deepEqual([test.code, test.out], [3, "0 passed, 1 failed, 0 skipped\n"]);
    });
    await onMachine(
      { tools: { ...tools, "apt-get": "echo no network; exit 100" }, user: "root" },
      async (dev) => {
        const { code, err } = await dev("setup");
        assert.equal(code, 1);
        assert.match(err, /no network\n.*Cannot install the software Vulkan driver/s);
      },
    );
  },
});

Deno.test({
  name: "dev: without Deno and npm the one command is printed, exit 3; unknown commands are exit 2",
  ...sanitize,
  async fn() {
    await onMachine({ tools: {}, user: "root" }, async (dev) => {
      const { code, err } = await dev("setup");
      assert.equal(code, 3);
      assert.ok(err.endsWith("  apt-get update && apt-get install -y nodejs npm\n"), err);
      const help = await dev();
      assert.equal(help.code, 0);
      assert.match(help.out, /\.\/dev demo/);
      assert.equal((await dev("tset")).code, 2);
    });
    await onMachine({ tools: { deno: fakeDeno(version) }, user: "root" }, async (dev) => {
      const refused = await dev("test", "--watch");
      assert.equal(refused.code, 2);
      assert.match(
        refused.out,
        /(^|\n)0 passed, 1 failed, 0 skipped\n$/,
        "every outcome ends with the count",
      );
    });
  },
});
