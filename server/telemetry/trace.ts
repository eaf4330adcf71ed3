/** The ids of a request: its own, and that of the distributed trace which it belongs to. */

/** The part of an OpenTelemetry span that requests use. */
export interface Span {
  spanContext(): { traceId: string };
  updateName(name: string): unknown;
  setAttribute(name: string, value: string): unknown;
}

/** The key of the active span in a context, as `@opentelemetry/api` names it. */
const SPAN_KEY = Symbol.for("OpenTelemetry Context Key SPAN");

/** The attribute of a span with the request's own id. */
export const TRACE_ATTRIBUTE = "svc.trace_id";

/** A `traceparent`. Only versions after 00 may append fields. @source https://www.w3.org/TR/trace-context/ */
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|(?<!^00.*)-)/;

/** The span of the request that is being answered; null without OpenTelemetry. */
export function activeSpan(): Span | null {
  return Deno.telemetry.contextManager.active()?.getValue?.(SPAN_KEY) ?? null;
}

/** A random id for a request: 32 hex digits. It does not depend on data of the client. */
export function newTraceId(): string {
  return crypto.randomUUID().replaceAll("-", "");
}

/** The id of the distributed trace of a request: of its span, else of its valid `traceparent`; null without both. */
export function otelTraceId({ headers, span }: { headers: Headers; span: Span | null }): string | null {
  if (span) return span.spanContext().traceId;
  return TRACEPARENT.exec(headers.get("traceparent")?.trim() ?? "")?.[1] ?? null;
}

/** Names a request's span by its route, as OpenTelemetry's conventions ask. */
export function nameSpan(span: Span, { method, route }: { method: string; route: string }): void {
  span.updateName(`${method} ${route}`);
  span.setAttribute("http.route", route);
}
