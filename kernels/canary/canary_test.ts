import assert from "node:assert/strict";
import type { DeviceFacts, DeviceRequest } from "../../core/device.ts";
import { ServiceError } from "../../core/errors.ts";
import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";
import { assumedGpu } from "../assumed_gpu.ts";
import { type Gpu, openGpu } from "../device.ts";
import { gpuTest, lacksF16 } from "../gpu_testing.ts";
import { withEmulatedMatrices } from "../matmul/emulated_matrices_testing.ts";
import {
  chooseLayout,
  chooseSegmentsTile,
  everyMatrices,
  layoutName,
  TILES,
} from "../matmul/matmul_layout.ts";
import { fitsSegments } from "../matmul/matmul_segments.ts";
import { SCRATCH_BYTES } from "../recorder.ts";
import { DAWN_PROVIDER } from "../webgpu/dawn_provider.ts";
import { dawnTest } from "../webgpu/dawn_testing.ts";
import { DENO_PROVIDER } from "../webgpu/deno_provider.ts";
import type { WebGpuProvider } from "../webgpu/provider.ts";
import { type CanaryReport, leaveOut, testForms, type Variant } from "./canary.ts";
import { wrongAttention, wrongSegments } from "./layer_forms.ts";
import { openCheckedGpu } from "./open_checked.ts";

const REQUEST: DeviceRequest = { device: "auto", webgpu: "deno" };

/** The form that only some devices have and that this one can run: it rounds operands to f16. */
const F16: Variant = { name: "operands in f16", feature: "shader-f16", compute: "f16" };

/** A driver that compiles another text than it is given. */
function wrongDriver(change: (code: string) => string): WebGpuProvider {
  return {
    ...DENO_PROVIDER,
    gpu: () => ({
      async requestAdapter(options) {
        const adapter = await DENO_PROVIDER.gpu()!.requestAdapter(options);
        if (!adapter) return null;
        const requestDevice = adapter.requestDevice.bind(adapter);
        adapter.requestDevice = async (descriptor) => {
          const device = await requestDevice(descriptor);
          const createShaderModule = device.createShaderModule.bind(device);
          device.createShaderModule = (given) => createShaderModule({ ...given, code: change(given.code) });
          return device;
        };
        return adapter;
      },
    }),
  };
}

const opener = (change: (code: string) => string) => () => openGpu(REQUEST, wrongDriver(change));

/** The same, with the forms of a GPU. */
const gpuOpener = (change: (code: string) => string) => async (): Promise<Gpu> => {
  const gpu = await opener(change)();
  return { ...gpu, facts: { ...gpu.facts, software: false } };
};

/** What is found where nothing is wrong. */
const RIGHT: CanaryReport = { refused: null, wrong: [], wrong_layouts: [], wrong_segments: null };

/** Doubles the operands that are rounded, as a driver with a wrong conversion might. */
const wrongF16 = (code: string) => code.replace("return operand4(clamp(", "return 2.0h * operand4(clamp(");
/** Leaves out the last step of every product. */
const wrongPlain = (code: string) => code.replaceAll("params.depth / 4u", "(params.depth / 4u - 1u)");

/** Only the tile of 128 × 128 has 32 vectors of rows. */
const isLarge = (code: string) => code.includes("tile_x: array<array<vec4<f32>, 32>, 16>");

/** Rounds rows where many are computed at once: integers stay as they are. */
const wrongTile = (code: string) =>
  code.includes(", scale1, s)")
    ? code.replace(/x_operand\(.*, scale0, s\)/g, (load) => `quantizeToF16(${load})`)
    : code;

gpuTest("a right driver keeps all of its forms", async () => {
  const open = opener((code) => code), report = await testForms(open, [F16]);
  assert.deepEqual(report, RIGHT);
  const gpu = await open();
  assert.deepEqual(leaveOut(gpu, report).facts, gpu.facts);
  gpu.device.destroy();
});

gpuTest("a form that the driver computes wrong is left out, and the others stay", async () => {
  const open = opener(wrongF16), report = await testForms(open, [F16]);
  assert.equal(report.refused, null);
  assert.deepEqual(report.wrong.map(({ variant }) => variant), [F16]);
  const reason = report.wrong[0]!.reason;
  assert.match(reason, /^row \d+, column \d+ is -?\d+ instead of -?\d+$/);
  const gpu = await open(), { features, left_out } = leaveOut(gpu, report).facts;
  assert.deepEqual(left_out, [`operands in f16 (${reason})`]);
  assert.deepEqual(features, gpu.facts.features.filter((feature) => feature !== "shader-f16"));
  gpu.device.destroy();
}, lacksF16);

gpuTest("a form whose f16 weights the driver reads wrong is left out", async () => {
  const turned = (code: string) =>
    code.includes("fn load_f16(") ? code.replace("return values[i];", "return values[i].yxzw;") : code;
  const { refused, wrong } = await testForms(gpuOpener(turned), [F16]);
  assert.equal(refused, null);
  assert.deepEqual(wrong.map(({ variant }) => variant), [F16]);
}, lacksF16);

gpuTest("a form that the driver does not compile is left out", async () => {
  const report = await testForms(opener((code) => code.replace("operand4(clamp(", "operand4(clamped(")), [
    F16,
  ]);
  assert.equal(report.refused, null);
  assert.match(report.wrong[0]!.reason, /^Cannot compile kernel matmul_nt_f32_f16_\w+ at operand_f16\.wgsl:/);
}, lacksF16);

gpuTest(
  "a layout that the driver computes wrong or does not compile is left out, and another takes its place",
  async () => {
    const opened = (change: (sum: string) => string) =>
      gpuOpener((code) => isLarge(code) ? code.replace("sum0_0 = fma(", change) : code);
    const size = { rows: 4096, columns: 4096, depth: 4096 };
    for (const change of [() => "sum0_0 = 1.0000001 * fma(", () => "sum0_0 = fused("]) {
      const open = opened(change), report = await testForms(open, []);
      assert.deepEqual(report, { ...RIGHT, wrong_layouts: ["128 × 128", "128 × 128, split"] });
      const gpu = leaveOut(await open(), report);
      assert.deepEqual(gpu.facts.left_out, [
        "products in tiles of 128 × 128",
        "products in tiles of 128 × 128, split",
      ]);
      assert.equal(layoutName(chooseLayout(gpu, size)), "64 × 64");
      assert.equal(chooseSegmentsTile(gpu, { ...size, compute: "f32" }, [4096]), TILES.middle);
      gpu.device.destroy();
    }
    const narrow = { ...size, columns: 16, depth: 256 };
    const chosen = (gpu: Parameters<typeof chooseLayout>[0], of = size) => layoutName(chooseLayout(gpu, of));
    assert.deepEqual(
      [[], ["64 × 16"], ["64 × 16, split"]].map((wrong_layouts) =>
        chosen({ ...assumedGpu(), wrong_layouts }, narrow)
      ),
      ["64 × 16", "16 × 64", "64 × 16"],
    );
    const few = { rows: 8, columns: 896, depth: 896 };
    assert.equal(chosen({ ...assumedGpu(), wrong_layouts: ["16 × 64, split"] }, few), "16 × 64");
    assert.equal(chosen(assumedGpu(), few), "16 × 64, split");
  },
);

gpuTest("a driver whose plain form is wrong is told as such", async () => {
  const { refused, wrong } = await testForms(opener(wrongPlain), [F16]);
  assert.match(refused!, /^its products are wrong \(row 0, column \d+ is -?\d+ instead of -?\d+\)$/);
  assert.deepEqual(wrong, []);
});

gpuTest(
  "a form whose tiles give a row other bits is wrong, although it multiplies integers right",
  async () => {
    const { refused } = await testForms(opener(wrongTile), []);
    assert.match(refused!, /\(row \d+, column \d+ is -?\d+\.\d+ instead of -?\d+\.\d+\)$/);
  },
);

/** A product with several segments of one type. */
const SEGMENTS = { compute: "f32", layout: TILES.small, rows: 35, depth: 320 } as const;

/** What a driver gets wrong that compiles another text where it finds `text`. */
async function wrongWith(
  [text, other]: readonly [text: string, other: string],
  check: (gpu: Gpu) => Promise<string | null>,
): Promise<string | null> {
  const gpu = await gpuOpener((code) => code.replace(text, other))();
  try {
    return await check(gpu);
  } finally {
    gpu.device.destroy();
  }
}

gpuTest(
  "each kernel that goes on with segments is compared with the operations one by one, and so are few rows",
  async () => {
    const other_bits = (name: string) => `${name} has other bits than operation by operation`;
    const check = (gpu: Gpu) => wrongSegments(gpu, SEGMENTS);
    const changes: [name: string, text: string, other: string][] = [
      ["q", "return fma(v, cosine, -(other * sine));", "return v * cosine - other * sine * 1.0000001;"],
      ["k_pages", "k_pages[at] = pack_four(v);", "k_pages[at] = pack_four(v.yxzw);"],
      ["v_pages", "v_pages[at] = pack_four(v);", "v_pages[at] = pack_four(1.0000001 * v);"],
      ["h", "activate(g0_1)", "1.0000001 * activate(g0_1)"],
      ["y", "v = residual[row + i] + v;", "v = residual[row + i] + 1.0000001 * v;"],
      ["normed", "normed[row + i] = y[row + i] * scale", "normed[row + i] = y[row + i] * scale * 1.0000001"],
      // The chunks after the first eight.
      ["q", "chunk += 8u", "chunk += 9u"],
    ];
    for (const [name, ...change] of changes) {
      const depth = name === "q" ? 704 : 320;
      const found = await wrongWith(change, (gpu) => wrongSegments(gpu, { ...SEGMENTS, depth }));
      assert.equal(found, other_bits(name), change[1]);
    }
    // A single row of the gate has a text of its own, which only few rows take.
    const single = ["activate(g0_0)", "1.0000001 * activate(g0_0)"] as const;
    const few = (gpu: Gpu) => wrongSegments(gpu, { ...SEGMENTS, rows: 3 });
    assert.equal(await wrongWith(single, few), other_bits("h"));
    assert.equal(await wrongWith(["no such text", ""], check), null);
    await assert.rejects(
      wrongWith(["activate(g0_0)", "activated(g0_0)"], check),
      /Cannot compile kernel fused_gate/,
    );
  },
);

gpuTest(
  "segments whose smallest tile or fused kernels are wrong are left out; of another tile, that tile",
  async () => {
    const wrongGate = (code: string) => code.replace("activate(g0_0)", "1.0000001 * activate(g0_0)");
    const open = gpuOpener(wrongGate), report = await testForms(open, []);
    const reason = "h has other bits than operation by operation";
    assert.deepEqual(report, { ...RIGHT, wrong_segments: reason });
    const gpu = leaveOut(await open(), report), right = leaveOut(gpu, RIGHT);
    gpu.device.destroy();
    assert.deepEqual(gpu.facts.left_out, [`products of segments (${reason})`]);
    const fits = (gpu: Gpu) => fitsSegments(gpu, [], { rows: 1 });
    assert.deepEqual([fits(gpu), fits(right)], [false, true]);
    // The tile of segments alone, and only with operands in f16.
    const wrongLarge = (code: string) =>
      isLarge(code) && code.includes("segment_of") && code.includes("enable f16;")
        ? code.replace("sum0_0 = fma(", "sum0_0 = 1.0000001 * fma(")
        : code;
    const tile = await testForms(gpuOpener(wrongLarge), []);
    assert.deepEqual(tile, { ...RIGHT, wrong_layouts: ["128 × 128, split"] });
  },
  lacksF16,
);

gpuTest("segments of a subgroup's matrices are compared with products of such matrices", async () => {
  const found = async (change: (code: string) => string) => {
    const gpu = withEmulatedMatrices(await opener(change)());
    try {
      const layout = { ...everyMatrices(gpu, "f16").at(-1)!, split: true };
      return await wrongSegments(gpu, { compute: "f16", layout, rows: 3, depth: 320 });
    } finally {
      gpu.device.destroy();
    }
  };
  assert.equal(await found((code) => code), null);
  const wrong = (code: string) => code.replace("+ column4] = sum;", "+ column4] = 1.0000001 * sum;");
  assert.equal(
    await found((code) => code.includes("segment_of") ? wrong(code) : code),
    "q has other bits than operation by operation",
  );
}, lacksF16);

gpuTest("each of attention's kernels for GPUs is compared with float64", async () => {
  const scaled = (marker: string) => (code: string) =>
    code.includes(marker) ? code.replaceAll("params.scale", "(1.01 * params.scale)") : code;
  const changes: [found: RegExp, change: (code: string) => string][] = [
    [/^o of attention \d+ is/, scaled("read_write> lse")],
    [/^d_q of attention \d+ is/, scaled("read_write> d_q")],
    [/^d_k of attention \d+ is/, scaled("read_write> d_k")],
    [/^d_q of attention \d+ is/, (code) => code.replace("dot(d_o[d], o[d])", "1.01 * dot(d_o[d], o[d])")],
    [/over pages, in a prefill, \d+ is/, scaled("var run_stop")],
    [/over pages, in a decode, \d+ is/, scaled("var<workgroup> q_head")],
    [/over pages, in a decode with a common prompt, \d+ is/, scaled("shared_tokens[first]")],
    [
      /over pages, in a decode, \d+ is/,
      (code) => code.replace("fma(other.y, now, ", "fma(1.01 * other.y, now, "),
    ],
  ];
  for (const [found, change] of changes) {
    const gpu = await gpuOpener(change)();
    assert.match(await wrongAttention(gpu) ?? "right", found);
    gpu.device.destroy();
  }
});

gpuTest("a device without memory for the tests, or that is lost once, loses no form", async () => {
  const open = (created: (size: number, device: GPUDevice) => void) => async () => {
    const gpu = await gpuOpener((code) => code)(), createBuffer = gpu.device.createBuffer.bind(gpu.device);
    gpu.device.createBuffer = (given) => {
      created(given.size, gpu.device);
      return createBuffer(given);
    };
    return gpu;
  };
  // What a driver says when it has no memory for the scratch tensor.
  const short = (size: number, device: GPUDevice) => {
    if (size !== SCRATCH_BYTES) return;
    const pushErrorScope = device.pushErrorScope.bind(device),
      popErrorScope = device.popErrorScope.bind(device);
    // The scopes that were pushed before.
    const scopes: GPUErrorFilter[] = ["out-of-memory", "validation"];
    device.pushErrorScope = (filter) => {
      scopes.push(filter);
      pushErrorScope(filter);
    };
    device.popErrorScope = async () => {
      const error = await popErrorScope();
      return scopes.pop() === "out-of-memory" ? { message: "not enough memory left" } as GPUError : error;
    };
  };
  await assert.rejects(testForms(open(short), []), {
    ...{ code: "out_of_memory", message: "Cannot test the device: not enough memory left" },
  });
  // The first buffer of this size is the weight of the plain layout.
  let is_lost = false;
  const lose = (size: number, device: GPUDevice) => {
    if (size !== 4 * 256 * 512 || is_lost) return;
    is_lost = true;
    device.destroy();
  };
  const report = await testForms(open(lose), []);
  assert.ok(is_lost);
  assert.deepEqual(report, { refused: null, wrong: [], wrong_layouts: [], wrong_segments: null });
});

/** Provider of adapters whose devices are real but have another name: a GPU, unless the name says otherwise. */
function named(
  name: WebGpuProviderName,
  device: string,
  change = (code: string) => code,
): WebGpuProvider {
  const inner = wrongDriver(change);
  return {
    ...{ name, blocks_reads: false, backend: () => "test", identify: DAWN_PROVIDER.identify },
    gpu: () => ({
      async requestAdapter(options) {
        const adapter = await inner.gpu()!.requestAdapter(options);
        const info = { vendor: "", architecture: "", device, description: "a driver" };
        return adapter && new Proxy(adapter, {
          get: (target, key) => {
            const value = Reflect.get(target, key, target);
            return key === "info" ? info : typeof value === "function" ? value.bind(target) : value;
          },
        });
      },
    }),
  };
}

/** The implementation that is chosen, with its reason. */
async function chosen(request: DeviceRequest, dawn: WebGpuProvider | ServiceError): Promise<DeviceFacts> {
  const { device, facts } = await openCheckedGpu(request, (name) => {
    if (name === "deno") return DENO_PROVIDER;
    if (dawn instanceof ServiceError) throw dawn;
    return dawn;
  });
  device.destroy();
  return facts;
}

gpuTest(
  "auto takes Dawn for a GPU with right products only, and says why it takes Deno's",
  async () => {
    const auto: DeviceRequest = { device: "auto", webgpu: "auto" };
    const why = async (request: DeviceRequest, dawn: WebGpuProvider | ServiceError) => {
      const { webgpu, webgpu_reason } = await chosen(request, dawn);
      return `${webgpu}: ${webgpu_reason}`;
    };
    assert.equal(
      await why(auto, named("dawn", "A GPU")),
      "dawn: it is installed, and its products and attention are right",
    );
    assert.equal(
      await why(auto, named("dawn", "SwiftShader")),
      "deno: Dawn finds no GPU but the software adapter SwiftShader",
    );
    assert.equal(
      await why({ ...auto, device: "software" }, named("dawn", "A GPU")),
      "deno: Dawn is chosen for GPUs only",
    );
    const missing = new ServiceError("device_unavailable", "Cannot use Dawn: install it");
    assert.equal(await why(auto, missing), "deno: Cannot use Dawn: install it");
    assert.match(
      await why(auto, named("dawn", "A GPU", wrongPlain)),
      /^deno: Cannot use webgpu = "dawn" on A GPU: its products are wrong \(row 0, .*\); update its driver$/,
    );
    const wrongAttention = (code: string) => code.replace("dot(d_o[d], o[d])", "2.0 * dot(d_o[d], o[d])");
    assert.match(
      await why(auto, named("dawn", "A GPU", wrongAttention)),
      /: its attention is wrong \(d_q of attention \d+ is .* instead of .*\); update its driver$/,
    );
    assert.equal(await why(REQUEST, missing), "deno: as configured");
    await assert.rejects(chosen({ ...auto, webgpu: "dawn" }, missing), missing);
  },
);

gpuTest("a GPU that another program has is neither opened nor looked for with Deno's WebGPU", async () => {
  const details = { retry_after_seconds: 30 };
  const taken = new ServiceError("device_unavailable", "Cannot use A GPU: it is taken", details);
  const found: unknown[] = [], dawn = named("dawn", "A GPU", (code) => (found.push("opened"), code));
  const take = (adapter: unknown) => (found.push(adapter), Promise.reject(taken));
  const opening = openCheckedGpu({ device: "auto", webgpu: "auto", take }, () => dawn);
  await assert.rejects(opening, taken);
  assert.deepEqual(found, [{ name: "A GPU", software: false, webgpu: "dawn" }]);
});

dawnTest("Dawn's products are right, in the forms of its adapter", async () => {
  const report = await testForms(() => openGpu({ device: "auto", webgpu: "dawn" }));
  assert.deepEqual(report, RIGHT);
});
