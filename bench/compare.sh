#!/bin/sh
# Compares the Go benchmarks of this tree, including uncommitted changes, with those of a commit.
#
#   bench/compare.sh COMMIT
#
# Both sides are built once. Then they run in turn, package by package and round by
# round, so that a drift of the machine hits both alike. COUNT is the number of rounds,
# BENCH a regular expression of names, PKG patterns of packages, TIME the length of one
# benchmark. A package that only one side has is left out.
set -eu
export LC_ALL=C

ref=${1:?usage: make bench-compare REF=COMMIT}
count=${COUNT:-6}
pattern=${BENCH:-.}
packages=${PKG:-./...}
time=${TIME:-1s}
go=${GO:-go}
benchstat=golang.org/x/perf/cmd/benchstat@v0.0.0-20250813145418-2f7363a06fe1

tree=$(cd "$(dirname "$0")" && git rev-parse --show-toplevel)
commit=$(git -C "$tree" rev-parse --verify --quiet "$ref^{commit}") || { echo "there is no commit $ref" >&2; exit 2; }
work=$(mktemp -d)
finish() {
  git -C "$tree" worktree remove --force "$work/worktree" 2>/dev/null || true
  rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM
git -C "$tree" worktree add --quiet --detach "$work/worktree" "$commit"

# build SIDE ROOT builds the tests of each package that has benchmarks, and lists the folders.
build() {
  mkdir "$work/$1"
  # shellcheck disable=SC2086 # several patterns are several words
  (cd "$2" && "$go" list -f '{{.Dir}}' $packages) | while read -r dir; do
    grep -qs '^func Benchmark' "$dir"/*_test.go || continue
    package=${dir#"$2"}
    binary=$work/$1/$(echo "$package" | tr / _).test
    echo "building $1 .$package" >&2
    (cd "$dir" && "$go" test -c -o "$binary" .) </dev/null
    echo "$package" >>"$work/$1.packages"
  done
  touch "$work/$1.packages"
}
build old "$work/worktree"
build new "$tree"
shared=$(grep -xF -f "$work/old.packages" "$work/new.packages") || { echo "no package has benchmarks on both sides" >&2; exit 2; }

# round SIDE ROOT PACKAGE runs the benchmarks of a package once.
round() {
  (cd "$2$3" && "$work/$1/$(echo "$3" | tr / _).test" -test.run '^$' -test.bench "$pattern" -test.benchmem -test.benchtime "$time") >>"$work/$1.txt" ||
    { tail -n 20 "$work/$1.txt" >&2; exit 1; }
}
for i in $(seq "$count"); do
  echo "round $i/$count" >&2
  for package in $shared; do
    round old "$work/worktree" "$package"
    round new "$tree" "$package"
  done
done

cd "$work" && "$go" run "$benchstat" "$ref"=old.txt tree=new.txt
