/** The name of a model, for files that refer to it. */

import type { GgufMetadata } from "./gguf_values.ts";

/** Metadata keys with the repository of the file's own weights, the most reliable first. */
const REPOSITORY_KEYS = [
  "general.source.huggingface.repository",
  "general.source.repo_url",
  "general.repo_url",
];
const BASE = "general.base_model";
const HUB_ID = /^[A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*$/;
const HUB_URL = /^https?:\/\/(?:www\.)?(?:huggingface\.co|hf\.co)\/([^/?#]+\/[^/?#]+)/;

/**
 * The name of a GGUF file's model for `base_model_name_or_path` in a PEFT folder: the Hugging Face id
 * `organization/name` of the repository that the file names as its own; else `general.name`; else the file's name
 * without folders and `.gguf`. Never a path.
 *
 * `general.base_model.0` names the model's parent, which has other weights. It counts only if it is the only parent and
 * has the model's own name, as in files that repackage another publisher's weights.
 *
 * @source The GGUF specification, "General metadata" and "Source metadata".
 */
export function modelName(metadata: GgufMetadata, path: string): string {
  const read = (key: string): string => {
    const value = metadata.get(key)?.value;
    return typeof value === "string" ? value.trim() : "";
  };
  for (const key of REPOSITORY_KEYS) {
    const id = hubId(read(key));
    if (id) return id;
  }
  const name = read("general.name");
  const base = Number(metadata.get(`${BASE}.count`)?.value) === 1 ? hubId(read(`${BASE}.0.repo_url`)) : null;
  if (base && plain(lastPart(base)) === plain(name)) return base;
  if (HUB_ID.test(name)) return name;
  return lastPart(name) || lastPart(path).replace(/\.gguf$/i, "");
}

/** An id, or the id in a Hugging Face URL. */
function hubId(text: string): string | null {
  const id = HUB_URL.exec(text)?.[1] ?? text;
  return HUB_ID.test(id) ? id : null;
}

const lastPart = (text: string): string => text.split(/[/\\]/).findLast((part) => part !== "") ?? "";

/** Converters write `Qwen3 0.6B` for `Qwen3-0.6B`. */
const plain = (name: string): string => name.toLowerCase().replace(/[\s_-]+/g, "-");
