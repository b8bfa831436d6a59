#!/usr/bin/env bash
# dist.sh builds a release in dist/: for each platform an archive with a static binary and its documents, and a bill of
# materials (SBOM); packages for Debian and Red Hat; the checksums of all of these.
#
# It builds a clone of the commit, since Go records in the binary the commit and the version of its tag; so uncommitted
# changes are left out, and the same commit gives the same files.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${GO:=go}" "${NFPM:?}" "${CYCLONEDX:?}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "$(git status --porcelain)" ] || echo "dist: what is not committed is not in it" >&2
dist=$PWD/dist
rm -rf "$dist"
mkdir "$dist"
git clone --quiet "$PWD" "$work/source"
cd "$work/source"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GOFLAGS=-trimpath

build() { # OS ARCH FILE
  CGO_ENABLED=0 GOOS=$1 GOARCH=$2 GOAMD64=v1 GOARM64=v8.0 "$GO" build -buildvcs=true -ldflags=-w -o "$3" ./cmd/lockd
}

build "$("$GO" env GOHOSTOS)" "$("$GO" env GOHOSTARCH)" "$work/lockd"
VERSION=$("$work/lockd" version | cut -d ' ' -f 2)
export VERSION
echo "lockd $VERSION"

for platform in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64; do
  os=${platform%/*}
  arch=${platform#*/}
  name=lockd_${VERSION}_${os}_$arch
  mkdir "$work/$name"
  build "$os" "$arch" "$work/$name/lockd"
  cp -r LICENSE CHANGELOG.md README.md ops "$work/$name/"
  tar -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
    gzip -n -9 >"$dist/$name.tar.gz"
  "$GO" run "$CYCLONEDX" bin -json -noserial -notimestamp -std -version "$VERSION" -output "$dist/$name.cdx.json" "$work/$name/lockd"
  if [ "$os" = linux ]; then
    for kind in deb rpm; do
      ARCH=$arch BINARY=$work/$name/lockd "$GO" run "$NFPM" package -f ops/package/nfpm.yaml -p "$kind" -t "$dist"
    done
  fi
done

cd "$dist"
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
cat SHA256SUMS
