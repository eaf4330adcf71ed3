/** Requests to a remote MCP server: no redirect to another origin, and answers with a largest size. */

/** The most bytes of an answer, of a stream of answers too, and of what a local server writes between two answers. */
export const MAX_ANSWER_BYTES = 64 << 20;

/** What to do about a status. */
const ADVICE: Readonly<Record<number, string>> = {
  401: "; give it credentials by headers (OAuth is not supported)",
  403: "; give it credentials by headers (OAuth is not supported)",
};

/**
 * `fetch` for one server. The stream of a server's own messages is not opened, because tools need none; only a stream of
 * answers that broke is.
 *
 * @throws When the server cannot be reached, redirects to another origin or answers with the status of an error.
 */
export async function guardedFetch(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const method = init.method ?? "GET";
  if (method === "GET" && !new Headers(init.headers).has("last-event-id")) {
    return new Response(null, { status: 405 });
  }
  const response = await fetch(input, { ...init, redirect: "manual" }).catch((error: Error) => {
    init.signal?.throwIfAborted();
    const { message } = error.cause instanceof Error ? error.cause : error;
    throw new Error(`it cannot be reached: ${message}`, { cause: error });
  });
  const { status, headers } = response, url = new URL(input instanceof Request ? input.url : input);
  const location = status >= 300 && status < 400 ? headers.get("location") : null;
  if (location !== null) {
    const { origin } = new URL(location, url);
    if (origin === url.origin) return response;
    await response.body?.cancel();
    throw new Error(`it redirects to ${origin}; give that address as its url if it is the right server`);
  }
  if (response.ok || status === 405) return capped(response);
  await response.body?.cancel();
  throw new Error(`it answered with status ${status}${ADVICE[status] ?? ""}`);
}

/** The same answer, whose body fails after {@link MAX_ANSWER_BYTES}. */
function capped(response: Response): Response {
  const { body, status, statusText, headers } = response;
  if (!body) return response;
  let left = MAX_ANSWER_BYTES;
  const counted = body.pipeThrough(
    new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
      transform(piece, controller) {
        left -= piece.length;
        if (left < 0) throw new Error(`its answer has more than ${MAX_ANSWER_BYTES} bytes`);
        controller.enqueue(piece);
      },
    }),
  );
  return new Response(counted, { status, statusText, headers });
}
