#!/usr/bin/env bash
# Fills .cache/gpu/ with what scripts/gpu_check.sh needs on a bare x86-64 Linux machine without a network:
# Deno, the Vulkan loader, and the npm packages of deno.lock. Needs npm, apt-get, xz and the pinned Deno.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pack=$root/.cache/gpu
version=$(cat "$root/.deno-version")
max_bytes=$((64 * 1024 * 1024))
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

say "packing the npm packages"
cd "$root"
mapfile -t entries < <(git ls-files --cached --others --exclude-standard -- '*.ts' | grep -v '^fixtures/')
DENO_DIR=$work/deno_dir "$deno" install --frozen --quiet
DENO_DIR=$work/deno_dir "$deno" cache --frozen --quiet "${entries[@]}"
tar -C "$work/deno_dir" -cJf "$pack/npm.tar.xz" npm

bytes=$(du -sb "$pack" | cut -f1)
say "$((bytes / 1024)) KiB in .cache/gpu"
if [ "$bytes" -gt "$max_bytes" ]; then say "Cannot carry more than $((max_bytes / 1024)) KiB"; exit 1; fi
