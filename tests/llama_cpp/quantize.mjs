/**
 * Quantisation by llama.cpp's library, as a program: one JSON request on standard input, an empty JSON answer on standard
 * output (typed in ../llama_cpp.ts). node-llama-cpp offers no such function, so its library is called.
 */

const BINARIES = new URL("node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/", import.meta.url);

/**
 * The parameters begin with the number of threads and the file type, in 32 bits each. Byte 16 tells whether a quantised
 * file may be read. This is more room than the library needs; it fills the rest with its defaults.
 */
const PARAMETERS = { struct: new Array(32).fill("u64") };

const { from, to, file_type } = await new Response(Deno.stdin.readable).json();
const name = [...Deno.readDirSync(BINARIES)].map((entry) => entry.name).find((file) =>
  /^libllama\.v/.test(file)
);
const { symbols } = Deno.dlopen(new URL(name, BINARIES), {
  llama_model_quantize_default_params: { parameters: [], result: PARAMETERS },
  llama_model_quantize: { parameters: ["buffer", "buffer", "buffer"], result: "u32" },
});
const parameters = symbols.llama_model_quantize_default_params();
const view = new DataView(parameters.buffer);
view.setInt32(0, 1, true);
view.setInt32(4, file_type, true);
view.setUint8(16, 1);
const path = (text) => new TextEncoder().encode(`${text}\0`);
const status = symbols.llama_model_quantize(path(from), path(to), parameters);
if (status !== 0) Deno.exit(1);
console.log("{}");
