/**
 * A local MCP server that misbehaves on purpose, as a program: its first argument says how it starts and lists its
 * tools, the tool that is called says what it does then. It speaks the protocol by hand.
 */

const [mode = "well"] = Deno.args;
const encoder = new TextEncoder();
/** A secret that the server gives away. */
const KEY = Deno.env.get("TOKEN") ?? "";

/** Writes all bytes before it returns. */
function write(text: string): void {
  for (let bytes = encoder.encode(text); bytes.length > 0;) {
    bytes = bytes.subarray(Deno.stdout.writeSync(bytes));
  }
}

const send = (message: object) => write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const text = (text: string) => ({ content: [{ type: "text", text }] });

function deepSchema(levels: number): string {
  return '{"type":"object","properties":{"a":'.repeat(levels) + "{}" + "}}".repeat(levels);
}

/** A reference that doubles with each of its 40 steps. */
function doublingSchema(): object {
  const steps = Array.from({ length: 40 }, (_, i) => {
    const next = { $ref: `#/$defs/s${i + 1}` };
    return [`s${i}`, { allOf: [next, next] }];
  });
  const properties = { a: { $ref: "#/$defs/s0" } };
  return { type: "object", properties, $defs: Object.fromEntries([...steps, ["s40", {}]]) };
}

const SCHEMAS: Record<string, string> = {
  bomb_loop: '{"type":"object","properties":{"a":{"$ref":"#/properties/a"}}}',
  bomb_deep: deepSchema(10_000),
  bomb_big: `{"type":"object","description":"${"x".repeat(500_000)}"}`,
  bomb_doubling: JSON.stringify(doublingSchema()),
  no_object: '{"type":"array"}',
};

/** The tools of the server, in no useful order. */
const TOOLS: Record<string, () => object | null> = {
  say: () => text("said"),
  pid: () => text(String(Deno.pid)),
  token: () => text(`the token is ${Deno.env.get("TOKEN")}`),
  environment: () => text(Object.keys(Deno.env.toObject()).sort().join(" ")),
  folder: () => text(Deno.cwd()),
  refuse: () => ({ ...text("no such page"), isError: true }),
  picture: () => ({
    content: [
      { type: "text", text: "before" },
      { type: "image", data: "aGk=", mimeType: "image/png" },
      { type: "resource", resource: { uri: "file:///a.txt", text: "inside" } },
      { type: "resource_link", uri: "file:///b.txt", name: "b" },
    ],
  }),
  structured: () => ({ content: [], structuredContent: { answer: 42 } }),
  huge: () => text("x".repeat(50_000_000)),
  count: () => text(String(++counted)),
  crash: () => {
    console.error("the disk is on fire");
    Deno.exit(7);
  },
  hang: () => null,
  flood: () => {
    const piece = "x".repeat(1 << 20);
    for (let i = 0; i < 100; i++) write(piece);
    return null;
  },
  flood_lines: () => {
    const piece = `${"x".repeat(1023)}\n`.repeat(1024);
    for (let i = 0; i < 100; i++) write(piece);
    return null;
  },
  leave_children: () => {
    const start = (program: string, ...args: string[]) =>
      new Deno.Command(program, { args, stdin: "null", stdout: "null", stderr: "null" }).spawn().pid;
    return text(`${start("sleep", "1000")} ${start("setsid", "sleep", "1000")}`);
  },
  /** It has another HOME, folder and session, and holds the output. */
  leave_hidden: () =>
    text(String(
      new Deno.Command("/bin/sleep", {
        ...{ args: ["1000"], cwd: "/", clearEnv: true, detached: true },
        ...{ stdin: "null", stdout: "inherit", stderr: "inherit" },
      }).spawn().pid,
    )),
  crash_at_length: () => {
    Deno.stderr.writeSync(encoder.encode(`${"e".repeat(2000)} last`));
    Deno.exit(7);
  },
  big_id: () => {
    send({ id: "x".repeat(200), result: text("for nobody") });
    return text("right");
  },
  wrong_id: () => {
    send({ id: 9999, result: text("for nobody") });
    return text("right");
  },
  twice: () => text("once"),
  not_mcp: () => ({ content: "no list" }),
  /** Answered with what is no answer of the protocol. */
  not_json_rpc: () => null,
  change_list: () => {
    send({ method: "notifications/tools/list_changed" });
    return text("changed");
  },
  leak_result: () => text("x".repeat(32_750) + KEY),
  leak_error: () => ({ ...text(`bad key ${KEY}`), isError: true }),
  leak_structured: () => ({ content: [], structuredContent: { [KEY]: [KEY] } }),
  leak_name: () => ({
    content: [{ type: "resource_link", name: "b", uri: `${"x".repeat(185)}${KEY}${"y".repeat(300)}` }],
  }),
  leak_id: () => {
    send({ id: "x".repeat(80) + KEY, result: text("for nobody") });
    return text("right");
  },
  leak_noise: () => {
    write("x".repeat(65) + KEY.slice(0, 20));
    write(`${KEY.slice(20)}\n`);
    return text("right");
  },
  /** Answered as a refusal. */
  leak_refusal: () => null,
  leak_crash: () => {
    const said = encoder.encode("x".repeat(10) + KEY + "x".repeat(782)), cut = 30;
    Deno.stderr.writeSync(said.subarray(0, cut));
    Deno.stderr.writeSync(said.subarray(cut));
    Deno.exit(3);
  },
  deep: () => JSON.parse(`{"content":[],"structuredContent":${"[".repeat(2000)}${"]".repeat(2000)}}`),
};

interface Params {
  name: string;
  cursor?: string;
}

let counted = 0;

function listed(): string {
  const tools = Object.keys(TOOLS).map((name) => `{"name":"${name}","inputSchema":{"type":"object"}}`);
  const schema = SCHEMAS[mode];
  if (schema) tools.push(`{"name":"bomb","inputSchema":${schema}}`);
  while (mode.startsWith("list_of_") && tools.length < Number(mode.slice(8))) {
    tools.push(`{"name":"t${tools.length}","inputSchema":{"type":"object"}}`);
  }
  // Tools whose schemas a test gives, by name.
  const own = JSON.parse(Deno.env.get("SCHEMAS") ?? "{}");
  for (const [name, inputSchema] of Object.entries(own)) tools.push(JSON.stringify({ name, inputSchema }));
  if (mode === "leak_list") {
    tools.push(`{"name":"leak","description":"${KEY}","inputSchema":{"type":"object","title":"${KEY}"}}`);
  }
  if (mode === "same_name") tools.push('{"name":"say","inputSchema":{"type":"object"}}');
  if (mode === "odd_names") {
    const arguments_schema =
      '{"type":"object","properties":{"n":{"type":"integer","minimum":3},"s":{"pattern":"^(a+)+$"}},"required":["n"]}';
    tools.push(`{"name":"a.b/c d","inputSchema":${arguments_schema}}`);
    tools.push(`{"name":"${"long".repeat(20)}","inputSchema":{"type":"object"}}`);
  }
  return `{"tools":[${tools.join()}]}`;
}

function answer({ id, method, params }: { id?: number; method: string; params: Params }): void {
  if (id === undefined) return;
  if (method === "initialize") {
    if (mode === "hang_at_start") return;
    const capabilities = { tools: { listChanged: true } }, serverInfo = { name: "misbehaving", version: "1" };
    return send({ id, result: { protocolVersion: "2025-06-18", capabilities, serverInfo } });
  }
  if (method === "tools/list") {
    if (mode === "no_form") return send({ id, result: { tools: [{ name: "a" }, { name: 7 }] } });
    if (mode.startsWith("ends_")) {
      const name = params.cursor ?? "first", end = mode === "ends_null" ? null : "";
      const tools = [{ name, description: null, inputSchema: { type: "object" } }];
      return send({ id, result: { tools, nextCursor: name === "first" ? "second" : end } });
    }
    if (mode === "endless_list") return send({ id, result: { tools: [], nextCursor: "more" } });
    const message = "x".repeat(980) + KEY;
    if (mode === "leak_refuse_list") return send({ id, error: { code: -32603, message } });
    if (mode === "refuse_list") return send({ id, error: { code: -32603, message: "no tools today" } });
    if (mode === "refuse_at_length") return send({ id, error: { code: -32603, message: "x".repeat(2000) } });
    return write(`{"jsonrpc":"2.0","id":${id},"result":${listed()}}\n`);
  }
  if (method !== "tools/call") return send({ id, error: { code: -32601, message: "no such method" } });
  if (params.name === "missing") return send({ id, error: { code: -32602, message: "no such tool" } });
  if (params.name === "not_json_rpc") return send({ id, error: "no such tool" });
  if (params.name === "leak_refusal") return send({ id, error: { code: -32602, message: `no ${KEY}` } });
  const result = (TOOLS[params.name] ?? TOOLS.say!)();
  if (result) send({ id, result });
  if (params.name === "twice") send({ id, result: text("again") });
}

if (mode === "exit") {
  console.error("no licence");
  Deno.exit(3);
}
if (mode === "long_noise") write(`${"n".repeat(200)}\n`);
if (mode === "noise") write('starting up\n{"level": "info"}\n\n');

let rest = "";
for await (const piece of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split("\n");
  rest = lines.pop()!;
  for (const line of lines) answer(JSON.parse(line));
}
if (mode === "ignore_eof") setInterval(() => {}, 1000);
