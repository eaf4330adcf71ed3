/** Something of the server that is followed while a component is there. */

import { useEffect, useMemo } from "preact/hooks";
import type { Api } from "./api.ts";
import { useClient } from "./context.ts";

/** Makes it, again for another `key`, and follows it until the component ends. */
export function useFollowed<T extends { follow(signal: AbortSignal): unknown }>(
  make: (api: Api) => T,
  key = "",
): T {
  const { api } = useClient(), followed = useMemo(() => make(api), [api, key]);
  useEffect(() => {
    const abort = new AbortController();
    followed.follow(abort.signal);
    return () => abort.abort();
  }, [followed]);
  return followed;
}
