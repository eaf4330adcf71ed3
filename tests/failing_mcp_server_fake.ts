/**
 * Stands in front of a real MCP server and fails on purpose. Arguments: a folder, what to do with each call of a tool as
 * JSON (`["pass", "crash"]`; later calls pass), and the command of the server. Calls are counted over all starts, in the
 * folder's file `calls`. Its file `pids` has the processes that were started.
 *
 * `crash` ends it with status 7, `hang` gives no answer, `flood` writes without end, and `gone` ends it with status 9, as
 * each later start does.
 */

const [folder, acts_json, program, ...args] = Deno.args;
const acts: string[] = JSON.parse(acts_json!);
const note = (file: string, text: string) =>
  Deno.writeTextFileSync(`${folder}/${file}`, text, { append: true });
const read = (file: string) => Deno.readTextFileSync(`${folder}/${file}`);

note("calls", "");
if (acts[read("calls").length - 1] === "gone") {
  console.error("the licence has ended");
  Deno.exit(9);
}
const server = new Deno.Command(program!, { args, stdin: "piped", stdout: "piped", stderr: "null" }).spawn();
const left = new Deno.Command("setsid", {
  args: ["sleep", "1000"],
  stdin: "null",
  stdout: "null",
  stderr: "null",
});
note("pids", `${Deno.pid} ${server.pid} ${left.spawn().pid} `);
const asked = server.stdin.getWriter(), encoder = new TextEncoder();

function flood(): never {
  const piece = encoder.encode("x".repeat(1 << 20));
  while (true) Deno.stdout.writeSync(piece);
}

/** Whether the server gets the message. */
function passes({ method }: { method: string }): boolean {
  if (method !== "tools/call") return true;
  note("calls", "c");
  const act = acts[read("calls").length - 1] ?? "pass";
  if (act === "crash") Deno.exit(7);
  if (act === "gone") Deno.exit(9);
  if (act === "flood") flood();
  return act === "pass";
}

void server.stdout.pipeTo(Deno.stdout.writable);
let rest = "";
for await (const piece of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split("\n");
  rest = lines.pop()!;
  for (const line of lines) if (passes(JSON.parse(line))) await asked.write(encoder.encode(`${line}\n`));
}
await asked.close();
