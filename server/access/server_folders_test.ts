import assert from "node:assert/strict";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parseServerConfig } from "../../config/server/load.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverFolders } from "./server_folders.ts";

/** The folders of a server whose file in a folder declares a reward. */
function foldersOf(folder: string, command: readonly string[], cwd = "."): string[] {
  const toml = `
data_dir = "/srv/data"
path_roots = ["/usr/lib/models"]
[[rewards]]
id = "exact"
command = ${JSON.stringify(command)}
cwd = ${JSON.stringify(cwd)}`;
  return serverFolders(parseServerConfig(toml, { path: `${folder}/server.toml` }));
}

/** Runs a test as a user with this home folder. */
function atHome(home: string, test: () => void): void {
  const { HOME } = Deno.env.toObject();
  Deno.env.set("HOME", home);
  try {
    test();
  } finally {
    if (HOME === undefined) Deno.env.delete("HOME");
    else Deno.env.set("HOME", HOME);
  }
}

Deno.test("the folders of the server, its program, its user, and the files that the catalogue names", () => {
  const command = [
    "/usr/bin/python3",
    "/opt/graders/grade.py",
    "/usr/local/bin/node",
    "/grade",
    "/srv/usr/bin/x",
  ];
  atHome("/var/operator", () => {
    const all = foldersOf("/nowhere", command, "/");
    const program = dirname(fileURLToPath(Deno.mainModule));
    for (
      const folder of [
        ...[
          "/srv/data",
          "/usr/lib/models",
          "/var/operator",
          program,
          "/opt/graders",
          "/opt/graders/grade.py",
        ],
        ...["/grade", "/srv/usr/bin"],
      ]
    ) assert.ok(all.includes(folder), folder);
    // What every machine has stays in the texts.
    for (const folder of ["/usr/bin", "/usr/bin/python3", "/usr/local/bin", "/usr/local/bin/node"]) {
      assert.ok(!all.includes(folder), folder);
    }
  });
});

Deno.test("a home folder that every machine has is shown", () => {
  for (const home of ["/usr/sbin", "/bin", "/dev"]) {
    atHome(home, () => assert.ok(!foldersOf("/nowhere", ["x"], "/").includes(home), home));
  }
});

Deno.test("arguments that are relative to the command's folder count, and a folder does not stand for its parent", () =>
  withFolder(async (root) => {
    for (const folder of ["config", "graders/math", "shared", "rubrics", "source"]) {
      await Deno.mkdir(`${root}/${folder}`, { recursive: true });
    }
    for (const file of ["graders/math/grade.py", "shared/check.py", "rubrics/long.md", "source/linked.py"]) {
      await Deno.writeTextFile(`${root}/${file}`, "");
    }
    await Deno.symlink(`${root}/source/linked.py`, `${root}/graders/math/linked.py`);
    const command = [
      "python3",
      ...["grade.py", "linked.py"],
      "../../shared/check.py",
      `--rubric=${root}/rubrics/long.md`,
      "../../none/x",
    ];
    const all = foldersOf(`${root}/config`, command, "../graders/math");
    assert.deepEqual(all.filter((path) => path.startsWith(`${root}/`)).sort(), [
      `${root}/graders/math`,
      `${root}/graders/math/grade.py`,
      `${root}/graders/math/linked.py`,
      `${root}/rubrics`,
      `${root}/rubrics/long.md`,
      `${root}/shared`,
      `${root}/shared/check.py`,
      `${root}/source`,
      `${root}/source/linked.py`,
    ]);
  }));

Deno.test("a long catalogue counts to its end", () => {
  const reward = (i: number) => `[[rewards]]\nid = "r${i}"\ncommand = ["/srv/grader_${i}/grade"]\n`;
  const toml = Array.from({ length: 300 }, (_, i) => reward(i)).join("");
  const all = serverFolders(parseServerConfig(toml, { path: "/nowhere/server.toml" }));
  for (let i = 0; i < 300; i++) assert.ok(all.includes(`/srv/grader_${i}`), String(i));
});
