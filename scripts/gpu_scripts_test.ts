/** Runs the GPU scripts in a folder of their own, where Deno, the linker and the packers are scripts. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SANITIZE = { sanitizeOps: true, sanitizeResources: true, ignore: Deno.build.os !== "linux" };
const MIB = 1 << 20;
const version = (await Deno.readTextFile(`${ROOT}.deno-version`)).trim();

/** Reports its version, prints an adapter, and prints its arguments and environment. */
const fakeDeno = (is: string) =>
  `#!/bin/sh
case $1 in
  --version) echo "deno ${is} (stable)" ;;
  eval) echo '{"device":"Fake GPU"}' ;;
  install | cache) mkdir -p "$DENO_DIR/npm"; echo package >"$DENO_DIR/npm/package" ;;
  *) echo "ran: $0 $1"; cat "$DENO_DIR/npm/package"
     if [ -f "$VK_DRIVER_FILES" ]; then cat "$VK_DRIVER_FILES"; fi
     env | grep -E '^(VK_DRIVER_FILES|VK_ICD_FILENAMES|LD_LIBRARY_PATH|REQUIRE_GPU)=' | sort ;;
esac
`;
/** The output of `ldconfig -p` for some libraries. */
const ldconfig = (...paths: string[]) =>
  paths.map((path) => `echo '	${path.split("/").at(-1)} (libc6,x86-64) => ${path}'`).join("\n") || ":";
const VULKAN = "/usr/lib/libvulkan.so.1";

interface Machine {
  /** Scripts by name. */
  tools?: Record<string, string>;
  /** Files by path in the folder; a number is a size. */
  files?: Record<string, string | number>;
  env?: Record<string, string>;
}

interface Outcome {
  code: number;
  out: string;
}

/** Runs a script on such a machine. In its output, paths in the folder are `<root>` and temporary ones `<work>`. */
async function runScript(
  script: "gpu_check.sh" | "gpu_pack.sh",
  args: string[],
  { tools = {}, files = {}, env = {} }: Machine,
): Promise<Outcome> {
  const root = await Deno.realPath(await Deno.makeTempDir());
  try {
    for (const name of ["bin", "scripts", "tmp", "kernels", "trainer", "tests", "out"]) {
      await Deno.mkdir(`${root}/${name}`);
    }
    await Deno.copyFile(`${ROOT}scripts/${script}`, `${root}/scripts/${script}`);
    await Deno.copyFile(`${ROOT}.deno-version`, `${root}/.deno-version`);
    await Deno.writeTextFile(`${root}/kernels/a_test.ts`, "");
    for (const [path, content] of Object.entries(files)) {
      const at = `${root}/${path}`;
      await Deno.mkdir(at.slice(0, at.lastIndexOf("/")), { recursive: true });
      await Deno.writeTextFile(at, typeof content === "string" ? content : "");
      if (typeof content === "number") await Deno.truncate(at, content);
    }
    // Packed files are fake here: the unpackers copy them.
    const all = { xz: 'for last; do :; done; cat "$last"', "nvidia-smi": "echo Fake GPU", ...tools };
    for (const [name, text] of Object.entries(all)) {
      const content = text.startsWith("#!") ? text : `#!/bin/sh\n${text}\n`;
      await Deno.writeTextFile(`${root}/bin/${name}`, content, { mode: 0o755 });
    }
    const { code, stdout, stderr } = await new Deno.Command("bash", {
      args: [`${root}/scripts/${script}`, ...args],
      clearEnv: true,
      env: {
        PATH: `${root}/bin:/usr/bin:/bin`,
        TMPDIR: `${root}/tmp`,
        OUT: `${root}/out`,
        SYSTEM_ROOT: `${root}/system`,
        ...env,
      },
    }).output();
    assert.deepEqual([...Deno.readDirSync(`${root}/tmp`)], [], "what was unpacked is removed");
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    return {
      code,
      out: text.replaceAll(/<?\S*\/tmp\/tmp\.\w+/g, (at) => at.replace(/\/\S*/, "<work>")).replaceAll(
        root,
        "<root>",
      ),
    };
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

/** The packages as a tar file, whose only file names their source. */
async function packages(): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/npm`);
    await Deno.writeTextFile(`${folder}/npm/package`, "packed package\n");
    const { stdout } = await new Deno.Command("tar", { args: ["-C", folder, "-cf", "-", "npm"] }).output();
    return new TextDecoder().decode(stdout);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const PACK = { ".cache/gpu/npm.tar.xz": await packages() };
const check = (machine: Machine) => runScript("gpu_check.sh", ["tests"], machine);
const line = (out: string, name: string) => new RegExp(`^${name}=(.*)$`, "m").exec(out)?.[1];

Deno.test({
  name: "gpu_check: the packed packages are unpacked for the Deno that is there, and for the packed one",
  ...SANITIZE,
  async fn() {
    const tools = { deno: fakeDeno(version), ldconfig: ldconfig(VULKAN) };
    const own = await check({ tools, files: PACK });
    assert.equal(own.code, 0, own.out);
    assert.match(own.out, /ran: <root>\/bin\/deno test\npacked package\n/);
    assert.equal(line(own.out, "REQUIRE_GPU"), "1");
    const files = { ...PACK, [`.cache/gpu/deno-${version}.xz`]: fakeDeno(version) };
    const packed = await check({ tools: { ...tools, deno: fakeDeno("1.0.0") }, files });
    assert.match(packed.out, /ran: <work>\/deno test\npacked package\n/);
  },
});

Deno.test({
  name: "gpu_check: missing packages are named, and a Deno with its own packages continues",
  ...SANITIZE,
  async fn() {
    const tools = { deno: fakeDeno(version), ldconfig: ldconfig(VULKAN) };
    const own = { DENO_DIR: "/nowhere" };
    const going = await check({ tools, env: own });
    assert.equal(going.code, 0, going.out);
    assert.match(going.out, /no packages are packed/);
    const old = { ...tools, deno: fakeDeno("1.0.0") };
    const none = await check({ tools: old });
    assert.equal(none.code, 1);
    assert.match(
      none.out,
      new RegExp(`Cannot go on: Deno ${version} is not here; run scripts/gpu_pack\\.sh`),
    );
    const files = { [`.cache/gpu/deno-${version}.xz`]: fakeDeno(version) };
    assert.match((await check({ tools: old, files })).out, /Cannot go on: npm\.tar\.xz of \.cache\/gpu/);
    const bare = await check({ tools: { ...tools, ldconfig: ":" }, files: PACK });
    assert.deepEqual([bare.code, /Cannot go on: libvulkan\.so\.1/.test(bare.out)], [1, true]);
  },
});

Deno.test({
  name: "gpu_check: the packed loader is unpacked where the linker finds none",
  ...SANITIZE,
  async fn() {
    const dpkg = '[ "$1" = -x ] && mkdir -p "$3/usr/lib/x86_64-linux-gnu"';
    const { code, out } = await check({
      tools: { deno: fakeDeno(version), ldconfig: "exit 1", dpkg },
      files: { ...PACK, ".cache/gpu/libvulkan1_1.3_amd64.deb": "" },
    });
    assert.equal(code, 0, out);
    assert.equal(line(out, "LD_LIBRARY_PATH"), "<work>/vulkan/usr/lib/x86_64-linux-gnu");
  },
});

Deno.test({
  name:
    "gpu_check: the driver is what the caller says, a file of the system, or one for the library that is there",
  ...SANITIZE,
  async fn() {
    const glx = "libGLX_nvidia.so.0", egl = "libEGL_nvidia.so.0", nvidia = "system/usr/local/nvidia";
    const icd = `${nvidia}/share/vulkan/icd.d/nvidia_icd.json`;
    const cases: { name: string; machine: Machine; linked?: string[]; driver?: string; library?: string }[] =
      [
        { name: "VK_DRIVER_FILES", machine: { env: { VK_DRIVER_FILES: "/a.json" } }, driver: "/a.json" },
        { name: "VK_ICD_FILENAMES", machine: { env: { VK_ICD_FILENAMES: "/b.json" } }, driver: "/b.json" },
        { name: "a file of the system", machine: { files: { [icd]: "icd\n" } }, driver: `<root>/${icd}` },
        {
          name: "a file whose libraries the linker does not find",
          machine: { files: { [icd]: "icd\n", [`${nvidia}/lib64/${glx}`]: "" } },
          ...{ driver: `<root>/${icd}`, library: `<root>/${nvidia}/lib64` },
        },
        {
          name: "GLX's library",
          machine: {},
          linked: [`/usr/lib/${egl}`, `/usr/lib/${glx}`],
          driver: `/usr/lib/${glx}`,
        },
        { name: "EGL's library alone", machine: {}, linked: [`/usr/lib/${egl}`], driver: `/usr/lib/${egl}` },
        {
          name: "EGL's library where the linker does not look",
          machine: { files: { [`${nvidia}/lib64/${egl}`]: "" } },
          ...{ driver: `<root>/${nvidia}/lib64/${egl}`, library: `<root>/${nvidia}/lib64` },
        },
        { name: "none", machine: {} },
      ];
    for (const { name, machine, linked = [], driver, library } of cases) {
      const tools = { deno: fakeDeno(version), ldconfig: ldconfig(VULKAN, ...linked) };
      const { code, out } = await check({ ...machine, tools, files: { ...PACK, ...machine.files } });
      assert.equal(code, 0, out);
      assert.equal(line(out, "VK_ICD_FILENAMES"), line(out, "VK_DRIVER_FILES"), name);
      assert.equal(line(out, "LD_LIBRARY_PATH"), library, name);
      if (!driver) assert.match(out, /no NVIDIA Vulkan driver/);
      else if (driver.endsWith(".json")) assert.equal(line(out, "VK_DRIVER_FILES"), driver, name);
      else {
        assert.equal(line(out, "VK_DRIVER_FILES"), "<work>/nvidia_icd.json", name);
        assert.ok(out.includes(`"library_path": "${driver}"`), `${name}: ${out}`);
      }
    }
  },
});

Deno.test({
  name: "gpu_check: the bench takes the shape, each WebGPU that is here, and fails where one fails",
  ...SANITIZE,
  async fn() {
    // Dawn's bench ends with the first status, and the host's with the second.
    const deno = (status: number, host_status: number) =>
      `#!/bin/sh
case $1 in
  --version) echo "deno ${version} (stable)" ;;
  eval) echo '{"device":"Fake GPU"}' ;;
  *) echo "ran: $*" ;;
esac
case "$*" in
  *"--webgpu dawn"*) cat "$SVC_DAWN"; exit ${status} ;;
  *bench_host*) exit ${host_status} ;;
esac
`;
    const bench = (status: number, host_status = 0, machine: Machine = {}) =>
      runScript("gpu_check.sh", ["bench"], {
        tools: { deno: deno(status, host_status), ldconfig: ldconfig(VULKAN) },
        files: { ...PACK, ...machine.files },
        env: { SHAPE: "tiny", QUICK: "1", ...machine.env },
      });
    const targets = /bench_targets\.ts <root>\/out\/gpu_targets\.json <root>\/out\/gpu_bench\.jsonl /;
    const without = await bench(3);
    assert.equal(without.code, 0, without.out);
    assert.match(without.out, /make_model\.ts --shape tiny --out <work>\/tiny\.gguf\n/);
    assert.match(without.out, /bench\.ts .* --webgpu deno --quick --out <root>\/out\/gpu_bench\.jsonl\n/);
    assert.match(
      without.out,
      /--webgpu dawn --quick --out <root>\/out\/gpu_bench_dawn\.jsonl\n.*no Dawn here/,
    );
    assert.match(without.out, targets);
    for (const [status, host_status] of [[2, 0], [0, 1]] as const) {
      const { code, out } = await bench(status, host_status);
      assert.deepEqual([code, targets.test(out)], [1, true], out);
      assert.match(out, /bench_targets[^]*bench_host\.ts --gpu/);
    }
    const files = { ".cache/gpu/dawn.node.xz": "packed Dawn\n", "own.node": "own Dawn\n" };
    const packed = await bench(0, 0, { files, env: { ONLY: "train,decode" } });
    assert.equal(packed.code, 0, packed.out);
    assert.match(
      packed.out,
      /--webgpu dawn --quick --only train,decode --out <root>\/out\/.*\npacked Dawn\n/,
    );
    const own = await bench(0, 0, { files, env: { SVC_DAWN: "own.node" } });
    assert.match(own.out, /\nown Dawn\n/);
    assert.doesNotMatch(own.out, /packed Dawn|--only/);
  },
});

Deno.test({
  name: "gpu_pack: the sizes of the working tree and of the upload are limited and printed",
  ...SANITIZE,
  async fn() {
    const pack = (tree: number, loader: number, files: Machine["files"] = {}) =>
      runScript("gpu_pack.sh", [], {
        tools: {
          deno: fakeDeno(version),
          git: `case "$*" in *-z*) printf 'big\\0gone\\0' ;; *) printf 'kernels/a_test.ts\\n' ;; esac`,
          npm: "mkdir package; : >package/deno; : >deno-linux-x64-glibc-1.tgz",
          tar: '[ "$1" = xzf ] || : >"$4"',
          "apt-get": `truncate -s ${loader} libvulkan1_1_amd64.deb`,
        },
        files: { big: tree, ...files },
      });
    const fits = await pack(28 * MIB, 4 * MIB);
    assert.equal(fits.code, 0, fits.out);
    assert.match(fits.out, /the working tree: 28672 KiB of 28672 KiB\n/);
    assert.match(fits.out, /the working tree and \.cache\/gpu: 32\d{3} KiB of 65536 KiB\n/);
    assert.match(fits.out, /tests\/dawn\/\S*\/dawn\.node is not here: Dawn is not packed\n/);
    const dawn = { "tests/dawn/node_modules/webgpu/dist/linux-x64/dawn.node": 5 * MIB };
    const with_dawn = await pack(28 * MIB, 4 * MIB, dawn);
    assert.equal(with_dawn.code, 0, with_dawn.out);
    assert.match(with_dawn.out, /the working tree and \.cache\/gpu: 37\d{3} KiB of 65536 KiB\n/);
    const tree = await pack(28 * MIB + 1024, 0);
    assert.deepEqual([tree.code, /Cannot carry the working tree: 1 KiB too much/.test(tree.out)], [1, true]);
    const all = await pack(20 * MIB, 44 * MIB);
    assert.equal(all.code, 1);
    assert.match(all.out, /Cannot carry the working tree and \.cache\/gpu: \d KiB too much/);
    assert.doesNotMatch(all.out, /Cannot carry the working tree:/);
  },
});
