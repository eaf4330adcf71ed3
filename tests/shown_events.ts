/** A reader of a server's event streams. */

/** An event of a stream. */
export interface ShownEvent {
  id: number;
  kind: string;
  data: Record<string, unknown>;
}

/** The events of a stream after an id. It ends with the stream, and fails when the connection breaks. */
export async function* shownEvents(
  url: string,
  since: number,
  headers: Record<string, string> = {},
): AsyncGenerator<ShownEvent> {
  const response = await fetch(`${url}?since=${since}`, { headers });
  let text = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [, id, kind, data] = /^id: (\d+)\nevent: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (id !== undefined) yield { id: Number(id), kind: kind!, data: JSON.parse(data!) };
    }
  }
}
