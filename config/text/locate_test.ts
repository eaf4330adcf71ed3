import assert from "node:assert/strict";
import { parse } from "smol-toml";
import { locateKeys } from "./locate.ts";

Deno.test("keys, dotted keys and headers have lines whatever is between them", () => {
  const text = `# [not.a.header]
top = 1
"quoted key" = 2
'literal.key' = 3

[a]   # comment = 1
x = """
[b]
y = 1 # " \\"""
"""
y = '''
z = 2'''
list = [ # ] not the end
  1, "]", [2],
  '''
]''',
]
after = { n = 1, m = { k = 2 } }
p.q . r = 1
[ a . "b.c" ]
d = 1

[[t]]
n = 1
[t.sub]
k = 1
[[t]]
n = 2
[t.sub]
k = 2
[[t.inner]]
z = 1
end = """x"""""
more = """x""""
last = 1`;
  assert.ok(parse(text));
  const lines = locateKeys(text);
  const expected: [(string | number)[], number][] = [
    [["top"], 2],
    [["quoted key"], 3],
    [["literal.key"], 4],
    [["a"], 6],
    [["a", "x"], 7],
    [["a", "y"], 11],
    [["a", "list"], 13],
    [["a", "list", 1], 13],
    [["a", "after"], 18],
    [["a", "after", "m", "k"], 18],
    [["a", "p"], 19],
    [["a", "p", "q", "r"], 19],
    [["a", "b.c"], 20],
    [["a", "b.c", "d"], 21],
    [["a", "missing"], 6],
    [["t"], 23],
    [["t", 0], 23],
    [["t", 0, "n"], 24],
    [["t", 0, "sub", "k"], 26],
    [["t", 1], 27],
    [["t", 1, "n"], 28],
    [["t", 1, "sub", "k"], 30],
    [["t", 1, "inner", 0, "z"], 32],
    [["t", 1, "inner", 0, "last"], 35],
    [["nowhere"], 1],
  ];
  for (const [path, line] of expected) assert.equal(lines.lineOf(path), line, path.join("."));
});

Deno.test("Windows line ends and a byte order mark count as nothing", () => {
  const lines = locateKeys('\uFEFF[a]\r\nx = 1\r\n\r\n[b]\r\ny = """\r\n\r\n"""\r\nz = 1\r\n');
  assert.deepEqual([["a"], ["a", "x"], ["b"], ["b", "z"]].map((path) => lines.lineOf(path)), [1, 2, 4, 8]);
});

Deno.test("long texts are read in linear time", () => {
  const text = `${"k".repeat(10)} = [${"1,".repeat(200_000)}]\n${"a.".repeat(5_000)}b = 1\nend = 1\n`;
  assert.equal(locateKeys(text).lineOf(["end"]), 3);
});
