#!/usr/bin/env bash
# static.sh FILE builds a crun without shared libraries and without systemd from the source of this Debian's package, its
# security fixes included, for jobd's --oci-runtime, and for `make bench BENCHFLAGS="-crun FILE"`.
set -euo pipefail
to=$(realpath -m "${1:?static.sh FILE}")
"$(dirname "$0")/../apt-install.sh" dpkg-source=dpkg-dev autoreconf=autoconf automake=automake libtoolize=libtool \
  pkg-config=pkg-config gperf=gperf /usr/include/yajl/yajl_tree.h=libyajl-dev /usr/include/sys/capability.h=libcap-dev \
  /usr/include/seccomp.h=libseccomp-dev

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# The host's own archives, asked for sources, for this alone: what apt knows besides stays as it is.
mkdir -p sources lists/partial
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  if [ -f "$file" ]; then sed -E 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/' "$file" >"sources/${file##*/}"; fi
done
apt() { apt-get -qq -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/sources" -o Dir::State::Lists="$work/lists" \
  -o APT::Sandbox::User=root "$@"; }
{ apt update || true; apt source crun; } >source.log 2>&1 || { cat source.log; exit 1; }
cd crun-*/

printf '#ifndef GIT_VERSION\n# define GIT_VERSION "%s, static"\n#endif\n' "$(dpkg-parsechangelog -S Version)" >git-version.h
mkdir lib
ln -s "$(gcc -print-file-name=libyajl_s.a)" lib/libyajl.a
{
  ./autogen.sh
  ./configure --disable-systemd CFLAGS=-O2 LDFLAGS="-static -L$PWD/lib" LIBS=-lm
  make -j"$(nproc)" LDFLAGS="-all-static -L$PWD/lib" crun
} >build.log 2>&1 || { tail -n 40 build.log; exit 1; }
strip crun
install -D -m 0755 crun "$to"
"$to" --version
