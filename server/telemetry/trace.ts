/** The trace of a request: its id, and the span that Deno's OpenTelemetry keeps of it. */

/** The part of an OpenTelemetry span that requests use. */
export interface Span {
  spanContext(): { traceId: string };
  updateName(name: string): unknown;
  setAttribute(name: string, value: string): unknown;
}

/** The key of the active span in a context, as `@opentelemetry/api` names it. */
const SPAN_KEY = Symbol.for("OpenTelemetry Context Key SPAN");

/** A `traceparent`. Only versions after 00 may append fields. @source https://www.w3.org/TR/trace-context/ */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.*)-)/;

/** The span of the request that is being answered; null without OpenTelemetry. */
export function activeSpan(): Span | null {
  return Deno.telemetry.contextManager.active()?.getValue?.(SPAN_KEY) ?? null;
}

/** The id of a request: that of its span or of the trace that its caller sends, else a random one. 32 hex digits. */
export function traceIdOf({ headers, span }: { headers: Headers; span: Span | null }): string {
  if (span) return span.spanContext().traceId;
  const sent = TRACEPARENT.exec(headers.get("traceparent")?.trim() ?? "");
  return sent ? sent[1]! : crypto.randomUUID().replaceAll("-", "");
}

/** Names a request's span by its route, as OpenTelemetry's conventions ask. */
export function nameSpan(span: Span, { method, route }: { method: string; route: string }): void {
  span.updateName(`${method} ${route}`);
  span.setAttribute("http.route", route);
}
