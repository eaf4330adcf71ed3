/** Zip archives without compression, whose length and every byte are known before they are written. */

import { Buffer } from "node:buffer";

/** A file of an archive. */
export interface ZipEntry {
  /** Its path in the archive, with slashes. */
  name: string;
  size_bytes: number;
  crc32: number;
  modified_ms: number;
}

/** A part of an archive: bytes, or all bytes of the entry with this number. */
type ZipPart = Uint8Array | { entry: number; size_bytes: number };

/** Above these the fields of the first format overflow, and those of zip64 take their place. */
const MAX_32 = 0xffffffff;
const MAX_16 = 0xffff;

const VERSION = 20;
const VERSION_ZIP64 = 45;
/** Names are UTF-8. */
const FLAGS = 0x0800;

/**
 * The parts of an archive in order: for each entry its header and its bytes, then the directory.
 *
 * @source PKWARE, ".ZIP File Format Specification" (APPNOTE.TXT) 6.3.10, sections 4.3 to 4.5.
 */
export function zipParts(entries: readonly ZipEntry[]): ZipPart[] {
  const parts: ZipPart[] = [], directory: Uint8Array[] = [];
  let offset = 0;
  entries.forEach((file, entry) => {
    const header = localHeader(file);
    parts.push(header, { entry, size_bytes: file.size_bytes });
    directory.push(directoryEntry(file, offset));
    offset += header.length + file.size_bytes;
  });
  const size = directory.reduce((sum, { length }) => sum + length, 0);
  return [...parts, ...directory, directoryEnd({ count: entries.length, size, offset })];
}

/** The length of an archive in bytes. */
export function zipSize(parts: readonly ZipPart[]): number {
  return parts.reduce((sum, part) => sum + (part instanceof Uint8Array ? part.length : part.size_bytes), 0);
}

/** Little-endian fields, as `[bytes, value]`. */
function fields(list: readonly (readonly [2 | 4 | 8, number])[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(list.reduce((sum, [bytes]) => sum + bytes, 0)));
  let at = 0;
  for (const [bytes, value] of list) {
    if (bytes === 2) view.setUint16(at, value, true);
    else if (bytes === 4) view.setUint32(at, value, true);
    else view.setBigUint64(at, BigInt(value), true);
    at += bytes;
  }
  return new Uint8Array(view.buffer);
}

/** Date and time of MS-DOS, UTC, two seconds exact, from 1980 on. */
function dosTime(modified_ms: number): readonly [readonly [2, number], readonly [2, number]] {
  const date = new Date(Math.max(modified_ms, Date.UTC(1980, 0, 1)));
  return [
    [2, date.getUTCHours() << 11 | date.getUTCMinutes() << 5 | date.getUTCSeconds() >> 1],
    [2, (date.getUTCFullYear() - 1980) << 9 | (date.getUTCMonth() + 1) << 5 | date.getUTCDate()],
  ];
}

const capped = (value: number) => [4, Math.min(value, MAX_32)] as const;

/** The extra field for values that overflow; empty when none does. */
function zip64Extra(values: readonly number[]): Uint8Array {
  if (values.length === 0) return new Uint8Array(0);
  return fields([[2, 1], [2, 8 * values.length], ...values.map((value) => [8, value] as const)]);
}

function localHeader({ name, size_bytes, crc32, modified_ms }: ZipEntry): Uint8Array {
  const extra = zip64Extra(size_bytes >= MAX_32 ? [size_bytes, size_bytes] : []);
  const bytes = new TextEncoder().encode(name);
  const head = fields([
    [4, 0x04034b50],
    [2, extra.length > 0 ? VERSION_ZIP64 : VERSION],
    [2, FLAGS],
    [2, 0],
    ...dosTime(modified_ms),
    [4, crc32],
    capped(size_bytes),
    capped(size_bytes),
    [2, bytes.length],
    [2, extra.length],
  ]);
  return Buffer.concat([head, bytes, extra]);
}

function directoryEntry({ name, size_bytes, crc32, modified_ms }: ZipEntry, offset: number): Uint8Array {
  const sizes = size_bytes >= MAX_32 ? [size_bytes, size_bytes] : [];
  const extra = zip64Extra([...sizes, ...(offset >= MAX_32 ? [offset] : [])]);
  const version = extra.length > 0 ? VERSION_ZIP64 : VERSION;
  const bytes = new TextEncoder().encode(name);
  const head = fields([
    [4, 0x02014b50],
    // Made on Unix, for the mode in the attributes: a regular file, 0644.
    [2, 3 << 8 | version],
    [2, version],
    [2, FLAGS],
    [2, 0],
    ...dosTime(modified_ms),
    [4, crc32],
    capped(size_bytes),
    capped(size_bytes),
    [2, bytes.length],
    [2, extra.length],
    [2, 0],
    [2, 0],
    [2, 0],
    [4, 0o100644 * 0x10000],
    capped(offset),
  ]);
  return Buffer.concat([head, bytes, extra]);
}

function directoryEnd({ count, size, offset }: { count: number; size: number; offset: number }): Uint8Array {
  const counted = [2, Math.min(count, MAX_16)] as const;
  const end = fields([[4, 0x06054b50], [2, 0], [2, 0], counted, counted, capped(size), capped(offset), [
    2,
    0,
  ]]);
  if (count < MAX_16 && size < MAX_32 && offset < MAX_32) return end;
  const end64 = fields([
    [4, 0x06064b50],
    [8, 44],
    [2, 3 << 8 | VERSION_ZIP64],
    [2, VERSION_ZIP64],
    [4, 0],
    [4, 0],
    [8, count],
    [8, count],
    [8, size],
    [8, offset],
  ]);
  return Buffer.concat([end64, fields([[4, 0x07064b50], [4, 0], [8, offset + size], [4, 1]]), end]);
}
