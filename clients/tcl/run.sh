#!/bin/sh
# Runs the Tcl suite of Redis (7.0) or Valkey, in external mode, against a redis-server, one
# lockd node and the second of three, and compares the tests that pass.
#
#   clients/tcl/run.sh FOLDER [UNIT ...]
#
# FOLDER is a source tree of Redis, with tests/test_helper.tcl. Nothing of it is
# copied. skip.txt, beside this file, names the tests that lockd is not asked to pass (a name that begins with / is a regular expression),
# with a reason that begins with "three nodes: " for three nodes alone. ALL=1 runs these as well,
# to see which of them pass by now, and may wait two minutes for some; TARGETS="single" runs one target.
# It fails if a test that redis-server passes is neither passed nor in skip.txt, or if
# fewer than 95 % pass of the tests about features that lockd has: those whose reason does not begin
# with "no ".
set -eu
export LC_ALL=C

suite=${1:?usage: clients/tcl/run.sh FOLDER [UNIT ...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
[ -f "$suite/tests/test_helper.tcl" ] || { echo "$suite holds no tests/test_helper.tcl" >&2; exit 2; }
units=${*:-unit/type/string unit/type/incr unit/type/hash unit/type/list unit/type/list-2
  unit/type/list-3 unit/type/set unit/type/zset unit/expire unit/keyspace unit/scan
  unit/scripting unit/functions unit/multi unit/pubsub unit/pubsubshard unit/protocol unit/introspection
  unit/introspection-2 unit/querybuf unit/quit unit/tracking unit/slowlog
  unit/other unit/wait unit/acl unit/acl-v2}
targets=${TARGETS:-redis single cluster}
port=${TCL_PORT:-27100}
tags="-needs:repl -needs:debug -needs:pfdebug -needs:save -needs:config-maxmemory -needs:config-resetstat -large-memory"
unit_seconds_max=600

work=$(mktemp -d)
server=
finish() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$work/data" "$work/lockd" "$work/suite"
}
trap finish EXIT
trap 'exit 1' INT TERM

# The suite runs from a folder of links, so that it writes nothing into its own. Some files are
# changed on the way: unit/scripting runs each script twice, by EVAL and as a function, under
# one name; here the second has a name of its own, so that skip.txt can name it. Of unit/acl and unit/acl-v2
# the first part, which needs no server of its own, runs; the user that a skipped test makes for later ones is made
# first.
mkdir "$work/suite"
cp -rs "$(cd "$suite" && pwd)/tests" "$work/suite/tests"
relink() {
  sed "$2" "$suite/$1" >"$work/changed" && rm "$work/suite/$1" && mv "$work/changed" "$work/suite/$1"
}
relink tests/unit/scripting.tcl 's/^foreach is_eval {0 1} {$/& set ::variant [expr {$is_eval ? "" : " (as a function)"}]/'
relink tests/unit/acl.tcl '1s/ external:skip//'
relink tests/unit/acl-v2.tcl '1s/ external:skip//
  s/^    test {Test various odd commands for key permissions} {$/    r ACL setuser command-test +@all %R~read* %W~write* %RW~rw*\n&/'
relink tests/support/test.tcl 's/^proc test {name code .*{$/&\n    if {[info exists ::variant]} {append name $::variant}/'

(cd "$here/../.." && go build -o "$work/lockd" ./cmd/lockd)
grep -v '^#' "$here/skip.txt" | grep . | cut -f 1 >"$work/cluster.skip"
tab=$(printf '\t')
grep -v '^#' "$here/skip.txt" | grep . | grep -v "${tab}three nodes: " | cut -f 1 >"$work/single.skip"
: >"$work/none"

# Each unit has a server of its own, without leftovers of other units. Three nodes on a busy machine
# get time: during an election a command may be answered -UNKNOWN, which is right, but no test
# expects it.
start() {
  rm -rf "$work/data" && mkdir "$work/data"
  case $1 in
  redis) redis-server --port "$port" --bind 127.0.0.1 --save '' --appendonly no --dir "$work/data" >"$work/$1.server" & ;;
  single) "$work/lockd" dev --nodes 1 --listen "127.0.0.1:$port" --dir "$work/data" --log-level warn 2>"$work/$1.server" >&2 & ;;
  cluster) "$work/lockd" dev --nodes 3 --heartbeat 3s --leader-wait 10s --listen "127.0.0.1:$((port - 1))" --dir "$work/data" --log-level warn 2>"$work/$1.server" >&2 & ;;
  *) echo "no target $1" >&2; exit 2 ;;
  esac
  server=$!
  until [ "$(redis-cli -p "$port" set ready 1 2>/dev/null)" = OK ]; do
    kill -0 "$server" || exit 1
    sleep 0.1
  done
}

stop() {
  kill "$server"
  wait "$server" || true
  server=
}

skip_for() {
  if [ "$1" = redis ] || [ -n "${ALL:-}" ]; then echo "$work/none"; else echo "$work/$1.skip"; fi
}

for target in $targets; do
  : >"$work/$target.log"
  for unit in $units; do
    [ -f "$suite/tests/$unit.tcl" ] || { echo "the suite has no $unit" >&2; continue; }
    start "$target"
    echo "== $unit" >>"$work/$target.log"
    (cd "$work/suite" && TERM=dumb timeout "$unit_seconds_max" tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" \
      --baseport $((port + 100)) --durable --ignore-encoding --ignore-digest --timeout "$unit_seconds_max" --tags "$tags" \
      --skipfile "$(skip_for "$target")" --single "$unit") >>"$work/$target.log" 2>&1 </dev/null || true
    stop
  done
  # A line "unit <tab> test" for each passed test.
  awk '/^== /{unit = $2} /^\[ok\]: /{sub(/^\[ok\]: /, ""); sub(/ \([0-9]+ ms\)$/, ""); print unit "\t" $0}' \
    "$work/$target.log" | sort >"$work/$target.ok"
  awk -v target="$target" '/^== /{unit = $2; order[++n] = unit} /^\[ok\]: /{ok[unit]++}
    /^\[err\]: /{err[unit]++} /^\[skip\]: /{skip[unit]++}
    END {for (i = 1; i <= n; i++) {u = order[i]
      printf "%-8s %-24s %4d ok %4d failed %4d skipped\n", target, u, ok[u], err[u], skip[u]}}' "$work/$target.log"
done

# matching LIST: the lines "unit <tab> test" whose test is in a list of skip.txt's form.
matching() {
  grep -v '^/' "$1" >"$work/skip.names" || true
  sed -n 's|^/||p' "$1" >"$work/skip.patterns"
  while IFS="$tab" read -r unit name; do
    if printf '%s\n' "$name" | grep -qxF -f "$work/skip.names" ||
      printf '%s\n' "$name" | grep -qE -f "$work/skip.patterns"; then printf '%s\t%s\n' "$unit" "$name"; fi
  done
}

[ -f "$work/redis.ok" ] || { echo "logs: $work"; exit 0; }
failed=0
grep -v '^#' "$here/skip.txt" | grep "${tab}no " | cut -f 1 >"$work/absent"
matching "$work/absent" <"$work/redis.ok" >"$work/absent.ok"
redis=$(wc -l <"$work/redis.ok")
all=$((redis - $(wc -l <"$work/absent.ok")))
for target in $targets; do
  [ "$target" != redis ] || continue
  comm -23 "$work/redis.ok" "$work/$target.ok" >"$work/$target.lost"
  lost=$(comm -23 "$work/$target.lost" "$work/absent.ok" | wc -l)
  passed=$((all - lost))
  echo "$target: $passed of $all tests that redis-server passes ($((passed * 1000 / all / 10)).$((passed * 1000 / all % 10)) %)," \
    "without $((redis - all)) about what lockd does not have"
  [ $((passed * 100)) -ge $((all * 95)) ] || failed=1
  # Each lost test needs a reason.
  matching "$work/$target.skip" <"$work/$target.lost" >"$work/reasoned"
  comm -23 "$work/$target.lost" "$work/reasoned" | while IFS="$tab" read -r unit name; do
    echo "  not passed: $unit: $name"
  done
  [ "$(wc -l <"$work/reasoned")" -eq "$(wc -l <"$work/$target.lost")" ] || failed=1
done
echo "logs: $work"
exit $failed
