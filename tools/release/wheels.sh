#!/bin/sh
# Builds wheels into dist/: abi3 for CPython 3.11 and later, for x86-64 and arm64, glibc and musl.
#
#   tools/release/wheels.sh            all four
#   tools/release/wheels.sh TARGET...  some, such as x86_64-unknown-linux-musl
#
# zig links each against the oldest libc that its tag allows. rustup fetches the standard library of
# a target once.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu \
    x86_64-unknown-linux-musl aarch64-unknown-linux-musl
PATH="$PWD/.venv/bin:$PATH"
for target; do
    case $target in
        *-musl) tag=musllinux_1_2 ;;
        *) tag=manylinux_2_17 ;;
    esac
    rustup target add "$target" 2>/dev/null || {
        echo "seatrial: the standard library of Rust for $target could not be fetched" >&2
        echo "    try: rustup target add $target" >&2
        exit 2
    }
    maturin build --release --strip --locked --zig --target "$target" --compatibility "$tag" \
        --out dist
done
