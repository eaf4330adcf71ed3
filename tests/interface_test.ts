/** The web interface as it is built, embedded and served. */

import assert from "node:assert/strict";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { loadInterface } from "../cli/interface.ts";
import { buildInterface, filesBelow, MAX_FIRST_LOAD_BYTES, namedByContent } from "../scripts/build_ui.ts";
import { buildParts, writeProgram } from "../scripts/bundle.ts";
import { interfaceAnswer, type InterfaceFiles } from "../server/http/interface_files.ts";
import { withFolder } from "./folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

async function textsOf(folder: string): Promise<Map<string, string>> {
  const paths = await filesBelow(folder);
  const texts = await Promise.all(paths.map((path) => Deno.readTextFile(path)));
  return new Map(paths.map((path, i) => [relative(folder, path), texts[i]!]));
}

/** Asks for a path. */
function ask(
  files: InterfaceFiles | null,
  { path, accept, method = "GET" }: { path: string; accept?: string; method?: string },
) {
  const headers = accept === undefined ? {} : { "accept-encoding": accept };
  return interfaceAnswer(files, { path, method, request: new Request(`http://h${path}`, { headers }) });
}

/** The packages that the interface's sources name, in imports of scripts and styles. */
async function interfaceImports(): Promise<string[]> {
  const paths = (await filesBelow(join(ROOT, "ui"))).filter((path) =>
    /\.(tsx?|css)$/.test(path) && !/_test\.ts$|\/dist\//.test(path)
  );
  const texts = await Promise.all(paths.map((path) => Deno.readTextFile(path)));
  const name = /^(?:import|.*from) "((?:@[^/"]+\/)?[a-z][^/"]*)[^"]*";$/gm;
  return texts.flatMap((text) => [...text.matchAll(name)].map(([, found]) => found!));
}

/** These packages and all that the lock file says they need, by name. */
async function lockedPackages(names: readonly string[]): Promise<string[]> {
  const { npm } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.lock")));
  const nameOf = (key: string) => key.replace(/(?<=.)@.*/, ""), needed = new Set<string>(), open = [...names];
  while (open.length > 0) {
    const name = open.pop()!;
    if (needed.has(name)) continue;
    needed.add(name);
    for (const [key, { dependencies = [] }] of Object.entries<{ dependencies?: string[] }>(npm)) {
      if (nameOf(key) === name) open.push(...dependencies.map(nameOf));
    }
  }
  return [...needed].sort();
}

Deno.test("two builds have the same bytes, name no path of this machine, and load little at first", async () => {
  await withFolder(async (folder) => {
    const bytes = await buildInterface(join(folder, "a"));
    assert.ok(bytes > 1000 && bytes <= MAX_FIRST_LOAD_BYTES, String(bytes));
    await buildInterface(join(folder, "b"));
    const [a, b] = await Promise.all([textsOf(join(folder, "a")), textsOf(join(folder, "b"))]);
    assert.deepEqual(a, b);
    const home = Deno.env.get("HOME")!;
    for (const [name, text] of a) {
      assert.ok(!text.includes(ROOT) && !text.includes(folder) && !text.includes(`${home}/`), name);
    }
    // The page names its files, and these the others: nothing is missing.
    const names = [...a.keys()].filter((name) => name.startsWith("assets/")).map((name) =>
      name.split("/")[1]!
    );
    assert.ok(names.some((name) => name.startsWith("drawing-")), "charts are a chunk of their own");
    assert.ok(names.some((name) => name.startsWith("toml_editor-")), "the editor is a chunk of its own");
    const imported = [...a.values()].flatMap((text) =>
      [...text.matchAll(/["']\.\/(?:assets\/)?([\w-]+\.(?:js|css))["']/g)].map(([, name]) => name!)
    );
    assert.deepEqual([...new Set(imported)].sort(), names.sort());
  });
});

Deno.test("a file's name follows from its content and that of what it imports", () => {
  const of = (leaf: string) =>
    namedByContent(
      new Map([
        ["main.js", 'import"./_/../leaf-OLD.js";import("./leaf-OLD.js")'],
        ["leaf-OLD.js", leaf],
        ["other.js", "3"],
      ]),
    );
  const one = of("1"), two = of("2");
  assert.notEqual(one.names.get("main.js"), two.names.get("main.js"));
  assert.equal(one.names.get("other.js"), two.names.get("other.js"));
  const leaf = one.names.get("leaf-OLD.js")!;
  assert.equal(one.files.get(one.names.get("main.js")!), `import"./${leaf}";import("./${leaf}")`);
  const circle = new Map([["a.js", 'import"./b.js"'], ["b.js", 'import"./a.js"']]);
  assert.throws(() => namedByContent(circle), /imports itself/);
});

Deno.test("files are kept for ever, the page is asked for each time, and both come compressed or plain", async () => {
  await withFolder(async (folder) => {
    await buildInterface(folder);
    const files = await loadInterface(folder), page = await ask(files, { path: "/" });
    assert.deepEqual([page?.content_type, page?.headers["cache-control"]], ["text/html", "no-cache"]);
    const html = new TextDecoder().decode(page!.body);
    assert.equal(html, await Deno.readTextFile(join(folder, "index.html")));
    const path = `/assets/${/assets\/(main-\w+\.js)/.exec(html)![1]}`;
    const script = await ask(files, { path, accept: "br, gzip;q=0.5" });
    assert.equal(script?.headers["cache-control"], "public, max-age=31536000, immutable");
    assert.equal(script?.headers["content-encoding"], "gzip");
    assert.equal(script?.headers["content-length"], String(script?.body?.length));
    const plain = await ask(files, { path, accept: "gzip;q=0, identity" });
    assert.equal(plain?.headers["content-encoding"], undefined);
    assert.equal(new TextDecoder().decode(plain!.body), await Deno.readTextFile(join(folder, path)));
    assert.equal(await ask(files, { path: "/index.html" }), null);
    assert.equal(await ask(null, { path: "/" }), null);
    assert.deepEqual((await ask(files, { path: "/", method: "OPTIONS" }))?.status, 204);
    await assert.rejects(ask(files, { path: "/", method: "POST" }), { type: "method-not-allowed" });
  });
});

Deno.test("a source checkout without a built interface has none", async () => {
  await withFolder(async (folder) => assert.equal(await loadInterface(join(folder, "dist")), null));
});

Deno.test("a program with the interface serves it from its one file; unbuilt, it names the command", async () => {
  await withFolder(async (folder) => {
    const interface_folder = join(folder, "ui"), program = join(folder, "program");
    assert.equal(typeof buildParts({ with: "ui", without: "" }).interface_folder, "string");
    await assert.rejects(writeProgram(program, { interface_folder }), /deno task build-ui/);
    await buildInterface(interface_folder);
    const { text, packages } = await writeProgram(program, { interface_folder });
    const build = JSON.parse(/^globalThis\.SVC_BUILD = (.*);$/m.exec(text)![1]!);
    const built = await textsOf(interface_folder);
    assert.deepEqual(Object.keys(build.interface_files).sort(), [...built.keys()].sort());
    const gzipped = Uint8Array.fromBase64(build.interface_files["index.html"]);
    const stream = new Blob([gzipped]).stream().pipeThrough(new DecompressionStream("gzip"));
    assert.equal(await new Response(stream).text(), built.get("index.html"));
    const licenses = await Deno.readTextFile(join(program, "THIRD_PARTY_LICENSES.txt"));
    const [own = "", of_interface = ""] = licenses.split("\nThe web interface contains these packages.\n");
    const headings = (text: string) =>
      [...text.matchAll(/^(\S+) \S+ \(.+\)\n=+\n\n/gm)].map(([, name]) => name!);
    assert.deepEqual(headings(own), packages.map(({ name }) => name).sort());
    assert.deepEqual(headings(of_interface), await lockedPackages(await interfaceImports()));
    assert.equal(
      (await ask(await loadInterface(interface_folder), { path: "/THIRD_PARTY_LICENSES.txt" }))?.status,
      200,
    );
  });
});
