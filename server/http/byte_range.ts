/** Conditions and ranges of a download (RFC 9110, sections 13 and 14). */

/** A part of a body, `end` excluded. */
export interface ByteRange {
  start: number;
  end: number;
}

/**
 * The part that a `Range` header asks for. Null, for all of the body, when it is malformed, cannot be satisfied, is of
 * another unit or asks for several parts.
 */
export function byteRange(header: string | null, size: number): ByteRange | null {
  const match = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(header ?? "");
  if (!match) return null;
  const [first, last] = [match[1]!, match[2]!];
  if (first === "") {
    return last === "" || Number(last) === 0 || size === 0
      ? null
      : { start: Math.max(0, size - Number(last)), end: size };
  }
  const start = Number(first), end = last === "" ? size : Math.min(size, Number(last) + 1);
  return start < size && start < end ? { start, end } : null;
}

const ETAG = /^(W\/)?"[\x21\x23-\x7e\x80-\xff]*"$/;

/** Whether an `If-None-Match` header names this strong entity tag: weak comparison, and `*` names all. */
export function namesEtag(header: string | null, etag: string): boolean {
  if (header === null) return false;
  if (header.trim() === "*") return true;
  return header.split(",").map((tag) => tag.trim()).filter((tag) => ETAG.test(tag))
    .some((tag) => tag.replace(/^W\//, "") === etag);
}

/** Whether a range may be sent: without an `If-Range` header, or with this entity tag in it (strong comparison). */
export function allowsRange(header: string | null, etag: string): boolean {
  return header === null || header.trim() === etag;
}
