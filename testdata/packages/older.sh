#!/usr/bin/env bash
# older.sh COMMIT DIR VERSION makes in DIR the packages that COMMIT makes of itself, under the name VERSION. They are made once.
set -euo pipefail
commit=$(git rev-parse -q --verify "$1^{commit}") || { echo "packages: there is no commit $1 here, name one with FROM=" >&2; exit 1; }
dir=$(realpath -m "$2") version=$3
if [ "$(cat "$dir/commit" 2>/dev/null)" = "$commit" ]; then exit; fi
echo "packages: those of $1"
rm -rf "$dir" "$dir.src"
git clone -q --shared . "$dir.src"
git -C "$dir.src" checkout -q "$commit"
# Packages were once compressed for minutes.
sed -i 's/compression: xz/compression: zstd/' "$dir.src/packaging/nfpm.yaml"
# Only make knows the flags for the linker.
make -C "$dir.src" --no-print-directory release VERSION="$version" ARCHS=amd64
mv "$dir.src/dist" "$dir"
rm -rf "$dir/stage" "$dir.src"
echo "$commit" >"$dir/commit"
