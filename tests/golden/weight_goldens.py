"""Blocks of every quantised type and the values that llama.cpp's own library makes of them, bit for bit.

  python3 tests/golden/weight_goldens.py <libggml-base.so> fixtures/weights/goldens.json.gz

The library comes with node-llama-cpp: tests/llama_cpp/node_modules/@node-llama-cpp/*/bins/*/libggml-base.so. Blocks are
random bytes, so that every bit of a block matters; their half-precision scales start with the special cases.
"""

import base64
import ctypes
import gzip
import json
import random
import struct
import sys

ROWS, COLUMNS = 3, 512
# Zero, both signs, the largest, the smallest normal, subnormal ones.
HALVES = [0x0000, 0x8000, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x0400, 0x8400, 0x0001, 0x8001, 0x03FF, 0x83FF]

# name: values and bytes of a block, the positions of its half-precision numbers, the function that decodes it
TYPES = {
    "f16": (1, 2, [0], "ggml_fp16_to_fp32_row"),
    "bf16": (1, 2, [], "ggml_bf16_to_fp32_row"),
    "q4_0": (32, 18, [0], "dequantize_row_q4_0"),
    "q4_1": (32, 20, [0, 2], "dequantize_row_q4_1"),
    "q5_0": (32, 22, [0], "dequantize_row_q5_0"),
    "q5_1": (32, 24, [0, 2], "dequantize_row_q5_1"),
    "q8_0": (32, 34, [0], "dequantize_row_q8_0"),
    "q4_k": (256, 144, [0, 2], "dequantize_row_q4_K"),
    "q5_k": (256, 176, [0, 2], "dequantize_row_q5_K"),
    "q6_k": (256, 210, [208], "dequantize_row_q6_K"),
}


def finite_half(rng, is_normal):
    while True:
        half = rng.getrandbits(16)
        exponent = half & 0x7C00
        if exponent != 0x7C00 and not (is_normal and exponent == 0):
            return half


def blocks_of(name, rng):
    block_values, block_bytes, halves, _ = TYPES[name]
    out = bytearray()
    for block in range(ROWS * COLUMNS // block_values):
        raw = bytearray(rng.randbytes(block_bytes))
        for i, at in enumerate(halves):
            # A device may flush subnormal f16 to 0 when it unpacks them; scales are therefore widened on the host.
            awkward = HALVES[:8] if name == "f16" else HALVES
            # Steps of 5, so that the few blocks of K types get each kind.
            given = awkward[(5 * block + 7 * i) % len(awkward)]
            half = given if block < len(awkward) else finite_half(rng, name == "f16")
            struct.pack_into("<H", raw, at, half)
        if name == "bf16":
            # A sign, an exponent near 1 and a mantissa; then the largest finite one and the smallest normal one.
            number = [0x7F7F, 0x0080, 0x8000, 0xFF7F][block] if block < 4 else rng.getrandbits(16) & 0xBFFF | 0x3000
            struct.pack_into("<H", raw, 0, number)
        out += raw
    return bytes(out)


def main(library, path):
    ggml = ctypes.CDLL(library)
    goldens = {}
    for name, (_, _, _, function) in TYPES.items():
        blocks = blocks_of(name, random.Random(f"svc {name}"))
        values = (ctypes.c_float * (ROWS * COLUMNS))()
        getattr(ggml, function)(blocks, values, ctypes.c_int64(ROWS * COLUMNS))
        goldens[name] = {
            "rows": ROWS,
            "columns": COLUMNS,
            "blocks": base64.b64encode(blocks).decode(),
            "values": base64.b64encode(bytes(values)).decode(),
        }
    text = json.dumps(goldens, indent=1).encode()
    with open(path, "wb") as file, gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
        packed.write(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
