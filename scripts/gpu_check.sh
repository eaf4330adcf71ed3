#!/usr/bin/env bash
# Correctness tests, then benches, on an x86-64 Linux machine with an NVIDIA GPU but without Deno or a network.
# First fill .cache/gpu/ elsewhere with scripts/gpu_pack.sh. Results go to $OUT (docs/bench).
#
#   scripts/gpu_check.sh [tests] [bench] [pytorch]     all three in this order when none is named
#
# Exit status: 0 all passed, 1 a test or bench failed, 3 no GPU. ALLOW_SOFTWARE=1 accepts a software adapter, to try
# this script. SHAPE is the shape of the model that is measured (0.5b; tiny to try this script), QUICK=1 measures each
# figure once and briefly. ONLY=train,decode measures these parts of scripts/bench.ts alone. SVC_DAWN names dawn.node, to
# measure that too; without it the packed one serves. SYSTEM_ROOT is a prefix of the paths in which drivers are searched,
# for tests of this script.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
PATH=$PATH:/usr/sbin:/sbin # ldconfig
system=${SYSTEM_ROOT:-}
pack=$root/.cache/gpu
version=$(cat .deno-version)
out=${OUT:-$root/docs/bench}
shape=${SHAPE:-0.5b}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

say() { printf 'gpu_check: %s\n' "$*"; }

unpack_xz() { # file; a bare machine may have Python and not xz
  if command -v xz >/dev/null 2>&1; then xz -dc "$1"; else
    python3 -c 'import lzma, shutil, sys; shutil.copyfileobj(lzma.open(sys.argv[1]), sys.stdout.buffer)' "$1"
  fi
}

needs_pack() { say "Cannot go on: $1 is not here; run scripts/gpu_pack.sh where there is a network"; exit 1; }

find_deno() {
  deno=$(command -v deno || true)
  if [ -n "$deno" ] && [ "$("$deno" --version | sed -n 's/^deno \([^ ]*\).*/\1/p')" = "$version" ]; then return; fi
  if [ ! -f "$pack/deno-$version.xz" ]; then needs_pack "Deno $version"; fi
  deno=$work/deno
  unpack_xz "$pack/deno-$version.xz" >"$deno"
  chmod +x "$deno"
}

# An earlier Deno cache may lack packages of deno.lock.
find_packages() {
  if [ ! -f "$pack/npm.tar.xz" ]; then
    if [ "$deno" = "$work/deno" ]; then needs_pack "npm.tar.xz of .cache/gpu"; fi
    say "no packages are packed: those of this machine's own Deno serve"
    return
  fi
  export DENO_DIR=$work/deno_dir
  mkdir -p "$DENO_DIR"
  unpack_xz "$pack/npm.tar.xz" | tar -C "$DENO_DIR" -xf -
}

# Dawn's library is optional.
find_dawn() {
  if [ -n "${SVC_DAWN:-}" ] || [ ! -f "$pack/dawn.node.xz" ]; then return; fi
  unpack_xz "$pack/dawn.node.xz" >"$work/dawn.node"
  export SVC_DAWN=$work/dawn.node
}

# The first of these libraries that the linker finds.
linked_library() {
  local name
  for name in "$@"; do
    ldconfig -p 2>/dev/null | sed -n "s|.*=> \\(.*/${name//./\\.}\\)\$|\\1|p" | head -n 1
  done | head -n 1 || true
}

add_library_folder() { export LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; }

find_loader() {
  local packages
  if [ -n "$(linked_library libvulkan.so.1)" ]; then return; fi
  packages=("$pack"/libvulkan1_*_amd64.deb)
  if [ ! -f "${packages[0]}" ]; then needs_pack "libvulkan.so.1"; fi
  dpkg -x "${packages[0]}" "$work/vulkan"
  add_library_folder "$work/vulkan/usr/lib/x86_64-linux-gnu"
}

# Loaders before 1.3.207 know only the second name.
use_driver() { export VK_DRIVER_FILES=$1 VK_ICD_FILENAMES=$1; }

# A machine without a display may have EGL's library but not GLX's; both are Vulkan drivers.
find_driver() {
  local file folder library linked libraries=(libGLX_nvidia.so.0 libEGL_nvidia.so.0)
  if [ -n "${VK_DRIVER_FILES:-${VK_ICD_FILENAMES:-}}" ]; then
    use_driver "${VK_DRIVER_FILES:-$VK_ICD_FILENAMES}"
    return
  fi
  linked=$(linked_library "${libraries[@]}")
  library=$linked
  for folder in /usr/local/nvidia/lib64 /usr/local/nvidia/lib /usr/lib/x86_64-linux-gnu /usr/lib64; do
    for file in "${libraries[@]}"; do
      if [ -z "$library" ] && [ -e "$system$folder/$file" ]; then library=$system$folder/$file; fi
    done
  done
  # The driver loads its other libraries by name from its own folder.
  if [ -n "$library" ] && [ -z "$linked" ]; then add_library_folder "$(dirname "$library")"; fi
  for folder in /usr/share/vulkan /etc/vulkan /usr/local/nvidia/share/vulkan; do
    for file in "$system$folder"/icd.d/nvidia_icd*.json; do
      if [ -f "$file" ]; then use_driver "$file"; return; fi
    done
  done
  if [ -n "$library" ]; then
    printf '{"file_format_version": "1.0.1", "ICD": {"library_path": "%s", "api_version": "1.3.0"}}\n' "$library" \
      >"$work/nvidia_icd.json"
    use_driver "$work/nvidia_icd.json"
    return
  fi
  say "no NVIDIA Vulkan driver (nvidia_icd.json, ${libraries[*]}) was found"
}

set_up() {
  find_deno
  find_packages
  find_dawn
  find_loader
  find_driver
  export REQUIRE_GPU=1 DENO_WEBGPU_BACKEND=vulkan DENO_NO_UPDATE_CHECK=1 XDG_RUNTIME_DIR=$work/runtime
  mkdir -m 700 "$XDG_RUNTIME_DIR"
  # The tests and programs start Deno by its path; scripts find it by name.
  PATH=$(dirname "$deno"):$PATH
  export PATH
  if ! "$deno" eval --no-config --no-lock '
    const adapter = await navigator.gpu?.requestAdapter({ powerPreference: "high-performance" });
    if (!adapter) Deno.exit(3);
    const { description, device, vendor, architecture, isFallbackAdapter } = adapter.info;
    console.log(JSON.stringify({ description, device, vendor, architecture, software: isFallbackAdapter,
      features: [...adapter.features] }));
    if (isFallbackAdapter && !Deno.env.get("ALLOW_SOFTWARE")) Deno.exit(3);' >"$out/gpu_adapter.json"; then
    say "there is no GPU that Deno can use: $(cat "$out/gpu_adapter.json")"
    exit 3
  fi
  say "adapter $(cat "$out/gpu_adapter.json")"
  if command -v nvidia-smi >/dev/null 2>&1; then
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader | tee "$out/gpu_driver.txt"
  fi
}

# The steps run before `||`, where `set -e` is off, so each command that may fail says what follows.
run_tests() {
  local tests
  mapfile -t tests < <(find kernels trainer tests -name '*_test.ts' -not -path '*/node_modules/*' \
    \( -path 'kernels/*' -o -path 'trainer/*' -o -path 'tests/golden*' \) | sort)
  say "${#tests[@]} test files"
  NO_COLOR=1 "$deno" test -A --no-check --cached-only --junit-path="$out/gpu_tests.xml" "${tests[@]}" 2>&1 |
    tee "$out/gpu_tests.log"
}

# Each WebGPU that is here; Dawn needs its library (docs/guides/install.md). What fails does not keep the rest from being
# measured and compared.
run_bench() {
  local model=$work/half.gguf options=() status failed_part=0 webgpu to
  if [ "$shape" != 0.5b ]; then model=$work/$shape.gguf; fi
  if [ -n "${QUICK:-}" ]; then options+=(--quick); fi
  if [ -n "${ONLY:-}" ]; then options+=(--only "$ONLY"); fi
  "$deno" run -A --cached-only scripts/make_model.ts --shape "$shape" --out "$model" || return 1
  for webgpu in deno dawn; do
    say "bench through the WebGPU of $webgpu"
    status=0
    to=$out/gpu_bench.jsonl
    if [ "$webgpu" = dawn ]; then to=$out/gpu_bench_dawn.jsonl; fi
    "$deno" run -A --cached-only scripts/bench.ts --model "$model" --webgpu "$webgpu" "${options[@]}" \
      --out "$to" || status=$?
    if [ "$webgpu" = dawn ] && [ "$status" = 3 ]; then
      say "no Dawn here: its figures are not measured"
    elif [ "$status" != 0 ]; then
      say "FAILED bench through the WebGPU of $webgpu"
      failed_part=1
    fi
  done
  "$deno" run -A --cached-only scripts/bench_targets.ts "$out/gpu_targets.json" "$out"/gpu_bench{,_dawn}.jsonl ||
    failed_part=1
  "$deno" run -A --cached-only scripts/bench_host.ts --gpu --out "$out/gpu_host.jsonl" || failed_part=1
  return "$failed_part"
}

run_pytorch() {
  if ! python3 -c 'import torch' 2>/dev/null; then
    say "python3 has no torch: no ratio"
    return 0
  fi
  local bench=()
  if [ -f "$out/gpu_bench.jsonl" ]; then bench=(--bench "$out/gpu_bench.jsonl"); fi
  python3 scripts/bench_pytorch.py "${bench[@]}" --out "$out/gpu_bench_pytorch.jsonl"
}

failed=0
after() { # status, step
  if [ "$1" != 0 ]; then
    say "FAILED $2"
    failed=1
  fi
}

set_up
[ $# -gt 0 ] || set -- tests bench pytorch
for step in "$@"; do
  say "$step"
  status=0
  case $step in
    tests) run_tests || status=1 ;;
    bench) run_bench || status=1 ;;
    pytorch) run_pytorch || status=1 ;;
    *)
      say "Cannot run $step: there are tests, bench and pytorch"
      exit 2
      ;;
  esac
  after "$status" "$step"
done
exit $failed
