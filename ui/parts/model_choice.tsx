/** The choice of a model file among those that the server found. */

import type { ComponentChildren } from "preact";
import type { ModelFile } from "../../api/types.ts";
import { allPages } from "../client/api.ts";
import { type Loaded, useLoad } from "../client/use_call.ts";
import { Loading } from "./loading.tsx";

/** The model files of the server. */
export function useModelFiles(): Loaded<readonly ModelFile[]> {
  return useLoad(async (api, signal) => {
    const pages = await allPages((query) => api.call("GET /v1/model-files", { query, signal }));
    return pages.flatMap(({ models }) => models);
  }, "models");
}

/** The last part of a path. */
export function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The model that is shown when none is chosen: one that can be trained, with a chat template if there is one. */
function preferred(models: readonly ModelFile[]): ModelFile | undefined {
  const trainable = models.filter((model) => model.trainable);
  return trainable.find(({ chat_template }) => chat_template) ?? trainable[0] ?? models[0];
}

interface WithModelProps {
  /** The path in the address; null for none: then {@link preferred}. */
  chosen: string | null;
  onChoose(path: string): void;
  /** Other fields beside the choice. */
  fields: ComponentChildren;
  children(path: string): ComponentChildren;
}

/** A choice of a model, and below it what depends on it. */
export function WithModel({ chosen, onChoose, fields, children }: WithModelProps) {
  const files = useModelFiles();
  return (
    <Loading of={files} what="the models">
      {(files) => {
        const models = files.filter(({ type }) => type === "model");
        const model = chosen ?? preferred(models)?.path;
        if (model === undefined) {
          return (
            <p>
              The server has found no model: put a GGUF file below one of the <code>path_roots</code>{" "}
              of its configuration.
            </p>
          );
        }
        return (
          <>
            <form class="filters" onSubmit={(event) => event.preventDefault()}>
              <label class="field">
                <span>Model</span>
                <select value={model} onChange={({ currentTarget }) => onChoose(currentTarget.value)}>
                  {models.map(({ path }) => (
                    <option key={path} value={path} title={path}>{fileName(path)}</option>
                  ))}
                </select>
              </label>
              {fields}
            </form>
            {children(model)}
          </>
        );
      }}
    </Loading>
  );
}
