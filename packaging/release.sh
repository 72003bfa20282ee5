#!/usr/bin/env bash
# release.sh VERSION LDFLAGS makes in dist/, or in $DIST, what a release consists of: a deb, an rpm and a tar.gz for each
# architecture, jobctl alone for each of $CLIENTS (a tar.gz, for Windows a zip), the bill of materials, and SHA256SUMS. All of it
# follows from the commit alone, to the last bit. Where only some architectures are asked for, there are no clients unless they are named.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 ldflags=$2 dist=${DIST:-dist}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export LC_ALL=C TZ=UTC
umask 022
tool() { GOFLAGS=-trimpath go run -C packaging "$@"; }

rm -rf "$dist" && mkdir -p $dist/stage/zsh
host=$(go env GOARCH)
for arch in ${ARCHS:-amd64 arm64}; do
  echo "release: compiling for $arch"
  mkdir -p $dist/stage/$arch/usr/bin
  GOARCH=$arch go build -ldflags "$ldflags" -o $dist/stage/$arch/usr/bin/ ./cmd/jobd ./cmd/jobd-shim ./cmd/jobctl
done
clients=${CLIENTS-$([ -n "${ARCHS:-}" ] || echo darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)}
for client in $clients; do
  echo "release: compiling jobctl for $client"
  mkdir -p "$dist/stage/${client/\//-}/usr/bin"
  GOOS=${client%/*} GOARCH=${client#*/} go build -ldflags "$ldflags" -o "$dist/stage/${client/\//-}/usr/bin/" ./cmd/jobctl
done
here=$dist/stage/$host/usr/bin
[ -d "$here" ] || { here=$dist/stage/host && mkdir "$here" && go build -ldflags "$ldflags" -o "$here" ./cmd/jobd ./cmd/jobctl; }

echo "release: licences"
tool ./inventory -version "$version" -time "$SOURCE_DATE_EPOCH" -notices "$PWD/$dist/stage/THIRD-PARTY-NOTICES" \
  -sbom "$PWD/$dist/jobd-$version.spdx.json" "$PWD"/$dist/stage/*/usr/bin/*

echo "release: manual pages and completions"
for program in jobd jobctl; do
  mkdir -p $dist/stage/pages
  env -u KUBECACHEDIR HOME=/home/user "$here/$program" man $dist/stage/pages # kubectl has defaults of flags in the home
  "$here/$program" completion bash >$dist/stage/$program.bash
  "$here/$program" completion zsh >$dist/stage/zsh/_$program
  "$here/$program" completion fish >$dist/stage/$program.fish
done
# Each of the packagers has another place for those of zsh (nfpm.yaml); this is where zsh itself looks.
install -D -m 0644 -t $dist/stage/tar/usr/share/zsh/site-functions $dist/stage/zsh/*
for arch in ${ARCHS:-amd64 arm64}; do
  stage=$dist/stage/$arch
  for page in $dist/stage/pages/*; do
    install -d "$stage/usr/share/man/man${page##*.}"
    gzip -9n <"$page" >"$stage/usr/share/man/man${page##*.}/${page##*/}.gz"
  done
  for program in jobd jobctl; do
    install -D -m 0644 $dist/stage/$program.bash "$stage/usr/share/bash-completion/completions/$program"
    install -D -m 0644 $dist/stage/$program.fish "$stage/usr/share/fish/vendor_completions.d/$program.fish"
  done
  install -D -m 0644 -t "$stage/usr/share/doc/jobd" NOTICE $dist/stage/THIRD-PARTY-NOTICES
  # The pages with what they link to, at the same places, so that the links hold.
  git ls-files '*.md' testdata/examples | xargs cp --parents -t "$stage/usr/share/doc/jobd"
  install -D -m 0644 LICENSE "$stage/usr/share/doc/jobd/copyright"
  install -d "$stage/usr/lib/systemd/system"
  sed 's,@PREFIX@,/usr,g; s,@CONFIG@,/etc/jobd/jobd.yaml,g' packaging/jobd.service >"$stage/usr/lib/systemd/system/jobd.service"
  sed 's,@PREFIX@,/usr,g' packaging/jobd-forward@.service >"$stage/usr/lib/systemd/system/jobd-forward@.service"
  "$here/jobd" config >"$stage/jobd.yaml"
  install -D -m 0644 packaging/users.yaml "$stage/usr/share/jobd/users.yaml"
  find $dist/stage -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +

  # The tar unpacks to a directory of its own, which holds the programs and what goes with them.
  echo "release: packages for $arch"
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" \
    --transform "s,^\.,jobd-$version-linux-$arch," -c ./usr ./jobd.yaml \
    -C "$PWD/$dist/stage/tar" ./usr | gzip -n >"$dist/jobd-$version-linux-$arch.tar.gz"
  # Compressors cut their input by the number of processors that they see.
  for format in deb rpm; do
    DIST=$dist ARCH=$arch PACKAGE_VERSION=$(packaging/version.sh "$version") \
      GOMAXPROCS=2 go tool -modfile=packaging/go.mod nfpm package --config packaging/nfpm.yaml --packager $format --target $dist/ >$dist/stage/nfpm.log || {
      cat $dist/stage/nfpm.log >&2 # which holds its errors too
      exit 1
    }
  done
done

"$here/jobctl" completion powershell >$dist/stage/jobctl.ps1
for client in $clients; do
  stage=$dist/stage/${client/\//-} name=jobctl-$version-${client/\//-}
  echo "release: jobctl for $client"
  mkdir "$stage/$name"
  cp "$stage"/usr/bin/jobctl* LICENSE NOTICE $dist/stage/THIRD-PARTY-NOTICES docs/laptop.md "$stage/$name"
  if [ "${client%/*}" = windows ]; then
    cp $dist/stage/jobctl.ps1 "$stage/$name"
    tool ./zip -time "$SOURCE_DATE_EPOCH" "$PWD/$dist/$name.zip" "$PWD/$stage" "$name"
    continue
  fi
  cp $dist/stage/pages/jobctl*.1 "$stage/$name"
  cp $dist/stage/jobctl.bash $dist/stage/jobctl.fish $dist/stage/zsh/_jobctl "$stage/$name"
  tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --mode=u+rwX,go+rX,go-w -c "$name" |
    gzip -n >"$dist/$name.tar.gz"
done
(cd "$dist" && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum -- >SHA256SUMS && cat SHA256SUMS)
