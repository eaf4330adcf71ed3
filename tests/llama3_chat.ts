/** The chat templates of Llama 3.1 and Mistral Nemo with a small vocabulary. */

import { openGguf } from "../trainer/formats/gguf.ts";
import { ChatTemplate } from "../trainer/tokenizer/chat_template.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import { Renderer } from "../trainer/tokenizer/renderer.ts";
import { fixturePath, readFixtureText } from "./fixture.ts";

const LLAMA = "templates/llamacpp/meta-llama-Llama-3.1-8B-Instruct.jinja";
const MISTRAL = "templates/llamacpp/mistralai-Mistral-Nemo-Instruct-2407.jinja";

/** A renderer of tiny-agent's vocabulary. Turns end with that vocabulary's end token in place of `<|eot_id|>`. */
export async function llama3Renderer(): Promise<Renderer> {
  return await rendererOf((await readFixtureText(LLAMA)).replaceAll("<|eot_id|>", "<|im_end|>"));
}

/** The same for Mistral, whose template ends turns with the vocabulary's end token. */
export async function mistralRenderer(): Promise<Renderer> {
  return await rendererOf(await readFixtureText(MISTRAL));
}

async function rendererOf(source: string): Promise<Renderer> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  return new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file, source));
}
