/** Recognises archives and compressed files, which are no lines of JSON. */

/** Bytes at an offset, and the name of the format. */
const SIGNATURES: readonly { at: number; bytes: readonly number[]; name: string }[] = [
  { at: 0, bytes: [0x50, 0x4b, 0x03, 0x04], name: "a zip archive" },
  { at: 0, bytes: [0x50, 0x4b, 0x05, 0x06], name: "a zip archive" },
  { at: 0, bytes: [0x1f, 0x8b], name: "a gzip file" },
  { at: 0, bytes: [0x28, 0xb5, 0x2f, 0xfd], name: "a zstd file" },
  { at: 0, bytes: [0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00], name: "an xz file" },
  { at: 0, bytes: [0x42, 0x5a, 0x68], name: "a bzip2 file" },
  { at: 0, bytes: [0x37, 0x7a, 0xbc, 0xaf, 0x27, 0x1c], name: "a 7z archive" },
  { at: 0, bytes: [0x50, 0x41, 0x52, 0x31], name: "a Parquet file" },
  { at: 0, bytes: [0x47, 0x47, 0x55, 0x46], name: "a GGUF file" },
  { at: 257, bytes: [0x75, 0x73, 0x74, 0x61, 0x72], name: "a tar archive" },
];

/** The format that the first 512 bytes of a file have; null when they may be text. */
export function archiveName(head: Uint8Array): string | null {
  const found = SIGNATURES.find(({ at, bytes }) => bytes.every((byte, i) => head[at + i] === byte));
  return found?.name ?? null;
}
