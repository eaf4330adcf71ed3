/** The printable characters that represent bytes in byte-level vocabularies. */

/** Bytes that represent themselves: printable in Latin-1. The others use the code points from 256 on. */
function isPrintable(byte: number): boolean {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/** The character of each byte. @source GPT-2's `bytes_to_unicode`. */
export const CHARACTER_OF_BYTE: readonly string[] = (() => {
  let spare = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isPrintable(byte) ? byte : spare++));
})();

const BYTE_OF_CODE = new Map(CHARACTER_OF_BYTE.map((character, byte) => [character.charCodeAt(0), byte]));

/** The bytes of a token's text; null when it contains a character that represents no byte. */
export function bytesOfToken(text: string): Uint8Array | null {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) {
    const byte = BYTE_OF_CODE.get(text.charCodeAt(i));
    if (byte === undefined) return null;
    bytes[i] = byte;
  }
  return bytes;
}
