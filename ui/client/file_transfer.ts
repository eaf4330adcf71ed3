/** Sends files by `XMLHttpRequest`, because `fetch` does not tell how much of a body is sent. */

/** A file on its way. */
export interface Transfer {
  headers: Headers;
  signal: AbortSignal;
  /** Tells how many bytes of the file are sent. */
  onProgress(sent_bytes: number): void;
}

/** Posts a file and returns the answer as `fetch` would. @throws {TypeError} When there is no answer. */
export function postFile(url: URL, file: Blob, { headers, signal, onProgress }: Transfer): Promise<Response> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    const fail = (message: string) => reject(new TypeError(message));
    request.open("POST", url);
    headers.forEach((value, name) => request.setRequestHeader(name, value));
    request.upload.onprogress = ({ loaded }) => onProgress(loaded);
    request.onload = () => {
      const { status, statusText, responseText } = request;
      const names = ["content-type", "x-trace-id"];
      const known = names.map((name) => [name, request.getResponseHeader(name) ?? ""] as [string, string]);
      resolve(new Response(responseText, { status, statusText, headers: known }));
    };
    request.onerror = () => fail("the connection broke off");
    request.onabort = () => reject(signal.reason);
    signal.addEventListener("abort", () => request.abort(), { once: true });
    request.send(file);
  });
}
