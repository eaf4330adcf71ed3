import assert from "node:assert/strict";
import { Template } from "@huggingface/jinja";
import { fixturePath } from "../../tests/fixture.ts";
import { openGguf } from "../formats/gguf.ts";
import { ChatTemplate } from "./chat_template.ts";
import {
  CHARS_PER_STEP,
  MAX_RENDER_CHARS,
  MAX_TEMPLATE_CHARS,
  MAX_TEMPLATE_DEPTH,
  MAX_TEMPLATE_SPACES,
  MAX_TEMPLATE_STEPS,
} from "./template_limits.ts";
import { probeTemplate } from "./template_probe.ts";
import { Renderer } from "./renderer.ts";
import { readTokenizer } from "./read_tokenizer.ts";

function render(source: string): string {
  const template = new ChatTemplate(source, { bos_token: "", eos_token: "" });
  return template.render({ messages: [], tools: [], add_generation_prompt: false, variables: {} });
}

const LIMITS = {
  MAX_TEMPLATE_STEPS,
  MAX_RENDER_CHARS,
  MAX_TEMPLATE_DEPTH,
  MAX_TEMPLATE_CHARS,
  MAX_TEMPLATE_SPACES,
};

/** Asserts that a template is refused because of a limit, which the message names with its value. */
function goesBeyond(limit: keyof typeof LIMITS, source: string): void {
  assert.throws(() => render(source), {
    code: "template_failed",
    message: new RegExp(`^Cannot (parse|render) the chat template: .*${limit} = ${LIMITS[limit]}$`),
    details: { limit },
  }, source.slice(0, 100));
}

const START = "{% set n = namespace(s='xxxxxxxx', l=['x'], o={'a': 1}) %}";
const often = (statement: string) => `${START}{% for i in range(40) %}${statement}{% endfor %}`;
/** A text of 2^20 characters, half of the limit. */
const LONG = `${START}{% for i in range(17) %}{% set n.s = n.s + n.s %}{% endfor %}`;
const longOften = (statement: string) => `${LONG}{% for i in range(100000) %}${statement}{% endfor %}`;

Deno.test("a value that grows in every iteration is stopped, whatever the operation", () => {
  for (
    const statement of [
      "{% set n.s = n.s + n.s %}",
      "{% set n.s = n.s ~ n.s %}",
      "{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}",
      "{% set n.s %}{% filter upper %}{{ n.s }}{{ n.s }}{% endfilter %}{% endset %}",
      "{% set n.s = n.s.replace('x', n.s) %}",
      "{% set n.s = n.s | replace('', n.s) %}",
      "{% set n.s = n.s | join(n.s) %}",
      "{% set n.s = [n.s, n.s] | join(separator=n.s) %}",
      "{% set n.s = (n.s + '\\n') | indent(1000000) %}",
      "{% set n.s = [n.s] | tojson(indent=1000000) %}",
    ]
  ) goesBeyond("MAX_RENDER_CHARS", often(statement));
  goesBeyond("MAX_TEMPLATE_STEPS", often("{% set n.l = n.l + n.l %}"));
});

Deno.test("a value that contains one part many times is stopped before it is written out", () => {
  const lists = often("{% set n.l = [n.l, n.l] %}");
  const uses = ["n.l", "n.l | tojson", "n.l | string", "n.l | join", "'a' ~ n.l", "n.l ~ 'a'", "n.l == 'a'"];
  for (const use of uses) goesBeyond("MAX_TEMPLATE_STEPS", `${lists}{{ ${use} }}`);
  goesBeyond("MAX_TEMPLATE_STEPS", `${often("{% set n.o = {'a': n.o, 'b': n.o} %}")}{{ n.o }}`);
  goesBeyond("MAX_TEMPLATE_STEPS", `${often("{% set n.o = namespace(a=n.o, b=n.o) %}")}{{ n.o }}`);
  assert.throws(() => render(`${lists}{{ raise_exception(n.l) }}`), { code: "template_failed" });
  assert.throws(() => render(`${lists}{{ strftime_now(n.l) }}`), { code: "template_failed" });
});

Deno.test("loops, operations on long texts and searches cost as much as they process", () => {
  for (
    const source of [
      "{% for x in range(10000000) %}a{% endfor %}",
      "{% for a in range(9000) %}{% for b in range(9000) %}{% endfor %}{% endfor %}",
      "{% set l = range(9000) %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}",
      "{% set l = range(90000) %}{% for a in l %}{% for b in l %}{% break %}{% endfor %}{% endfor %}",
      "{% macro f(x) %}{% if x > 0 %}{{ f(x - 1) }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(40) }}",
      `{% for i in range(9000) %}{% macro f() %}${"{{ a }}".repeat(100)}{% endmacro %}{% endfor %}`,
      longOften("{{ n.s[0] }}"),
      longOften("{% if n.s | upper %}{% endif %}"),
      longOften("{% if n.s is lower %}{% endif %}"),
      longOften("{% if n.s.split('y') %}{% endif %}"),
      longOften("{% if n.s[1:] %}{% endif %}"),
      longOften("{% if n.o[n.s ~ i] %}{% endif %}"),
      longOften("{% if n.o.get(n.s ~ i) %}{% endif %}"),
      longOften("{% if {n.s ~ i: 1} %}{% endif %}"),
      longOften("{% if n.s + 'x' == n.s + 'y' %}{% endif %}"),
      longOften("{{ n.s }}"),
      `${LONG}{% if 'y' + n.s in n.s + n.s %}{% endif %}`,
      `${LONG}{{ n.s.split('x') | length }}`,
    ]
  ) goesBeyond("MAX_TEMPLATE_STEPS", source);
});

Deno.test("steps: as many as the limit pass, one more does not", () => {
  // The program, `set`, the call, its name and its argument are a step each, and so is every number of the list.
  const loop = (n: number) => `{% set l = range(${n}) %}`;
  assert.equal(render(loop(MAX_TEMPLATE_STEPS - 5)), "");
  goesBeyond("MAX_TEMPLATE_STEPS", loop(MAX_TEMPLATE_STEPS - 4));
});

Deno.test("characters: a text as long as the limit is rendered, a longer one is not", () => {
  const doublings = Math.log2(MAX_RENDER_CHARS);
  const text =
    `{% set n = namespace(s='x') %}{% for i in range(${doublings}) %}{% set n.s = n.s ~ n.s %}{% endfor %}`;
  assert.equal(render(`${text}{{ n.s }}`).length, MAX_RENDER_CHARS);
  goesBeyond("MAX_RENDER_CHARS", `${text}{{ n.s }}x`);
  goesBeyond("MAX_RENDER_CHARS", `${text}{% set s = n.s ~ 'x' %}`);
  assert.ok(
    MAX_RENDER_CHARS / CHARS_PER_STEP < MAX_TEMPLATE_STEPS / 10,
    "long texts are not what takes the steps",
  );
});

Deno.test("depth: nested expressions, macros and values", () => {
  const sums = (n: number) => `{{ 1${"+1".repeat(n)} }}`;
  assert.equal(render(sums(MAX_TEMPLATE_DEPTH - 2)), String(MAX_TEMPLATE_DEPTH - 1));
  goesBeyond("MAX_TEMPLATE_DEPTH", sums(MAX_TEMPLATE_DEPTH - 1));
  goesBeyond("MAX_TEMPLATE_DEPTH", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
  goesBeyond("MAX_TEMPLATE_DEPTH", `${START}{% set n.o = n %}{{ n }}`);
  const nested = (n: number) =>
    `${START}{% for i in range(${n}) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}`;
  const deepest = MAX_TEMPLATE_DEPTH - 1;
  assert.equal(render(nested(deepest)), `${"[".repeat(deepest)}["x"]${"]".repeat(deepest)}`);
  goesBeyond("MAX_TEMPLATE_DEPTH", nested(deepest + 1));
  goesBeyond("MAX_TEMPLATE_DEPTH", `{{ ${"(".repeat(20_000)}1${")".repeat(20_000)} }}`);
});

Deno.test("source: as many characters as the limit, and one more", () => {
  assert.equal(render("x".repeat(MAX_TEMPLATE_CHARS)).length, MAX_TEMPLATE_CHARS);
  goesBeyond("MAX_TEMPLATE_CHARS", "x".repeat(MAX_TEMPLATE_CHARS + 1));
  const spaces = `${" ".repeat(MAX_TEMPLATE_SPACES)}x`;
  assert.equal(render(spaces.repeat(2)), spaces.repeat(2));
  goesBeyond("MAX_TEMPLATE_SPACES", ` ${spaces}`);
});

Deno.test("counting does not change a template's result", () => {
  const same: [source: string, text: string][] = [
    ["{% filter upper %}a{{ 'b' }}{% endfilter %}", "AB"],
    ["{{ [3, 1, 2] | sort(reverse=true) | join('-') }}", "3-2-1"],
    ["{{ [{'a': 'x'}, {'a': 'y'}] | selectattr('a', 'equalto', 'y') | map(attribute='a') | first }}", "y"],
    ["{{ 'a b'.split(' ') | last }}{{ {'k': 'v'}.items() | first | first }}", "bk"],
    ["{{ none | default('x') }}{{ y | default('z', true) }}{{ 'q' | default(boolean=true) }}", "zq"],
    ["{{ {'b': 1, 'a': [1, 2]} | tojson(sort_keys=true, separators=(',', ':')) }}", '{"a":[1,2],"b":1}'],
    ["{{ 'abc'[1:] }}{{ 'abc'[-1] }}{{ [1, 2, 3][::-1] | first }}{{ {'a': 1}['a'] }}", "bcc31"],
    [
      "{% macro f(a, b=2) %}{{ a }}{{ b }}{{ kwargs.c }}{{ varargs | length }}{% endmacro %}{{ f(1, c=3) }}",
      "1230",
    ],
    ["{% macro f() %}[{{ caller('x') }}]{% endmacro %}{% call(t) f() %}{{ t }}!{% endcall %}", "[x!]"],
    [
      "{% set l = [1, 2] %}{% macro f(a, b) %}{{ b }}{% endmacro %}{{ f(*l) }}{{ f(**{'a': 1, 'b': 4}) }}",
      "24",
    ],
    [
      "{% for x in range(9) if x % 2 %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% else %}none{% endfor %}",
      "135",
    ],
    ["{{ 1 if none and f() else 2 }}{{ true or raise_exception('not reached') }}", "2true"],
    ["{{ 'b' in 'abc' }}{{ 2 not in [1, 2] }}{{ 'a' in {'a': 1} }}{{ [1] + [2] }}", "truefalsetrue[1, 2]"],
    ["{% set f = 'abc'.upper %}{{ f() }}{{ range is callable }}", "ABCtrue"],
  ];
  for (const [source, text] of same) {
    assert.equal(new Template(source).render(), text, `the library: ${source}`);
    assert.equal(render(source), text, source);
  }
});

Deno.test("the probe names the limit once, and renders no further", async () => {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  let renders = 0;
  const exploding = new ChatTemplate(often("{% set n.l = n.l + n.l %}"), {
    bos_token: "",
    eos_token: "",
  });
  const { render } = exploding;
  exploding.render = function (input) {
    renders++;
    return render.call(this, input);
  };
  const { problems } = probeTemplate(new Renderer(readTokenizer(file), exploding), {});
  assert.equal(problems.length, 1);
  assert.match(problems[0]!, /MAX_TEMPLATE_STEPS/);
  assert.equal(renders, 1);
});
