#!/usr/bin/env bash
# Fills .cache/gpu/ with what scripts/gpu_check.sh needs on a bare x86-64 Linux machine without a network:
# Deno, the Vulkan loader, the npm packages of deno.lock, and Dawn's library where it is installed (SVC_DAWN, or
# tests/dawn). Needs npm, apt-get, xz and the pinned Deno.
#
# Exit status: 0 packed; 1 something is missing, or the working tree or the upload exceeds its limit.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pack=$root/.cache/gpu
version=$(cat "$root/.deno-version")
max_tree_bytes=$((28 * 1024 * 1024)) # tracked files, and untracked ones that git does not ignore
max_bytes=$((64 * 1024 * 1024))      # these and .cache/gpu/
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf 'gpu_pack: %s\n' "$*" >&2; }

deno=$(command -v deno || true)
for candidate in "$deno" "$root"/.cache/deno/node_modules/@deno/*/deno; do
  if [ -x "$candidate" ]; then deno=$candidate; break; fi
done
if [ -z "$deno" ]; then say "Cannot pack: Deno is not here; run ./dev setup"; exit 1; fi

mkdir -p "$pack"
if [ ! -f "$pack/deno-$version.xz" ]; then
  say "packing Deno $version for x86-64"
  rm -f "$pack"/deno-*.xz
  (cd "$work" && npm pack --silent "@deno/linux-x64-glibc@$version" >/dev/null && tar xzf deno-linux-x64-glibc-*.tgz)
  xz -T0 -9 -c "$work/package/deno" >"$work/deno.xz"
  mv "$work/deno.xz" "$pack/deno-$version.xz"
fi

if ! ls "$pack"/libvulkan1_*_amd64.deb >/dev/null 2>&1; then
  say "packing the Vulkan loader"
  (cd "$work" && apt-get download -qq libvulkan1:amd64)
  mv "$work"/libvulkan1_*_amd64.deb "$pack/"
fi

dawn=${SVC_DAWN:-$root/tests/dawn/node_modules/webgpu/dist/linux-x64/dawn.node}
rm -f "$pack/dawn.node.xz"
if [ -f "$dawn" ]; then
  say "packing Dawn's library"
  xz -T0 -9 -c "$dawn" >"$work/dawn.node.xz"
  mv "$work/dawn.node.xz" "$pack/dawn.node.xz"
else
  say "$dawn is not here: Dawn is not packed"
fi

say "packing the npm packages"
cd "$root"
mapfile -t entries < <(git ls-files --cached --others --exclude-standard -- '*.ts' | grep -v '^fixtures/')
DENO_DIR=$work/deno_dir "$deno" install --frozen --quiet
DENO_DIR=$work/deno_dir "$deno" cache --frozen --quiet "${entries[@]}"
# No check of a GPU runs these packages; Deno looks for their package.json.
for package in @redocly/cli axe-core openai playwright-core; do
  folder=$work/deno_dir/npm/registry.npmjs.org/$package
  if [ -d "$folder" ]; then find "$folder" -type f ! -name package.json ! -name registry.json -delete; fi
done
tar -C "$work/deno_dir" -cJf "$pack/npm.tar.xz" npm

kib() { printf '%s KiB' $(($1 / 1024)); }
failed=0
hold() { # bytes, limit, what
  say "$3: $(kib "$1") of $(kib "$2")"
  if [ "$1" -gt "$2" ]; then
    say "Cannot carry $3: $(kib $(($1 - $2))) too much"
    failed=1
  fi
}

# Deleted but uncommitted files are left out.
tree_bytes=$(git ls-files -z --cached --others --exclude-standard | (du -cb --files0-from=- 2>/dev/null || true) |
  tail -n 1 | cut -f1)
pack_bytes=$(du -sb "$pack" | cut -f1)
hold "$tree_bytes" "$max_tree_bytes" "the working tree"
hold $((tree_bytes + pack_bytes)) "$max_bytes" "the working tree and .cache/gpu"
exit "$failed"
