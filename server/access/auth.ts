/** Checks the caller: Host and Origin, as protection from DNS rebinding and other sites, and the bearer token. */

import { createHash, timingSafeEqual } from "node:crypto";
import { isLoopback, parseBind } from "../../config/server/schema.ts";

/** The headers of a request that matter here. */
export interface Caller {
  /** All Host headers, as sent. */
  hosts: readonly string[];
  origin: string | undefined;
  method: string;
  /** The header Sec-Fetch-Site, in which browsers say whose page sends the request. */
  fetch_site: string | undefined;
  /** The request target as sent: a path, or a full URL from a proxy. */
  target: string;
}

export interface HostRules {
  /** From the configuration. */
  allowed_hosts: readonly string[];
  /** The address and port of the configuration. */
  bind: string;
  /** The port that the server listens on. */
  port: number;
}

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"];

function splitHost(host: string): { name: string; port: number | null } | null {
  const match = /^(\[[0-9a-f:]+\]|[a-z0-9.-]+)(?::(\d{1,5}))?$/.exec(host.toLowerCase());
  return match ? { name: match[1]!, port: match[2] === undefined ? null : Number(match[2]) } : null;
}

function isListed(
  host: { name: string; port: number | null },
  rules: HostRules,
  default_port: number,
): boolean {
  return rules.allowed_hosts.some((entry) => {
    const listed = splitHost(entry);
    if (listed?.name !== host.name) return false;
    const port = host.port ?? default_port;
    return listed.port === null ? port === default_port || port === rules.port : port === listed.port;
  });
}

/**
 * Whether a Host header names this server: loopback names and the loopback address to which it is bound always (a tunnel
 * may change the port), others if listed.
 */
export function isHostAllowed(host: string, rules: HostRules): boolean {
  const split = splitHost(host);
  if (!split) return false;
  const { host: bound } = parseBind(rules.bind)!, is_bound = isLoopback(bound) && split.name === bound;
  return LOOPBACK_NAMES.includes(split.name) || is_bound || isListed(split, rules, 80) ||
    isListed(split, rules, 443);
}

/** The host of an Origin, and the port that its scheme has by default; null when it is no page's. */
function splitOrigin(origin: string) {
  const match = /^(https?):\/\/([^/]+)$/.exec(origin.toLowerCase());
  const host = match && splitHost(match[2]!);
  return host ? { host, default_port: match[1] === "https" ? 443 : 80 } : null;
}

function isOriginListed(origin: string, rules: HostRules): boolean {
  const split = splitOrigin(origin);
  return split !== null && isListed(split.host, rules, split.default_port);
}

/** Whether an Origin is the server's own, according to the Host header, or listed. */
export function isOriginAllowed(origin: string, host: string, rules: HostRules): boolean {
  const split = splitOrigin(origin), own = splitHost(host)!;
  const is_own = split?.default_port === 80 && split.host.name === own.name &&
    (split.host.port ?? 80) === (own.port ?? 80);
  return is_own || isOriginListed(origin, rules);
}

/** Methods that change nothing. */
const READING = ["GET", "HEAD", "OPTIONS"];

const FOREIGN_PAGE = "Another site's page sends the request; allowed_hosts lists those that may ask";

/** Why the Host or Origin of a request is refused, or null. */
export function callerProblem(
  { hosts, origin, method, fetch_site, target }: Caller,
  rules: HostRules,
): string | null {
  if (hosts.length !== 1) return "The request must have one Host header";
  const host = hosts[0]!;
  if (!isHostAllowed(host, rules)) {
    return "The Host header names no host of this server; allowed_hosts lists them";
  }
  if (!target.startsWith("/") && target !== "*") {
    const authority = URL.canParse(target) ? new URL(target).host : null;
    if (authority !== host.toLowerCase()) {
      return "The request target and the Host header name different hosts";
    }
  }
  if (origin !== undefined && !isOriginAllowed(origin, host, rules)) return FOREIGN_PAGE;
  // A listed page is of another site too, and its browser says so. A link to this server is one as well, and only reads.
  const is_foreign = fetch_site === "cross-site" && !READING.includes(method);
  return is_foreign && !(origin !== undefined && isOriginListed(origin, rules)) ? FOREIGN_PAGE : null;
}

/**
 * Whether an Authorization header has the token. The time does not depend on the number of correct characters: only
 * digests are compared, and in constant time.
 */
export function isTokenRight(
  header: string | undefined,
  token: string,
  equal: (a: Uint8Array, b: Uint8Array) => boolean = timingSafeEqual,
): boolean {
  const given = /^bearer +(\S+) *$/i.exec(header ?? "")?.[1];
  if (given === undefined) return false;
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return equal(digest(given), digest(token));
}
