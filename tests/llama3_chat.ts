/** Llama 3.1's chat template with a small vocabulary. */

import { openGguf } from "../trainer/formats/gguf.ts";
import { ChatTemplate } from "../trainer/tokenizer/chat_template.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import { Renderer } from "../trainer/tokenizer/renderer.ts";
import { fixturePath, readFixtureText } from "./fixture.ts";

const TEMPLATE = "templates/llamacpp/meta-llama-Llama-3.1-8B-Instruct.jinja";

/** A renderer of tiny-agent's vocabulary. Turns end with that vocabulary's end token in place of `<|eot_id|>`. */
export async function llama3Renderer(): Promise<Renderer> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const source = (await readFixtureText(TEMPLATE)).replaceAll("<|eot_id|>", "<|im_end|>");
  return new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file, source));
}
