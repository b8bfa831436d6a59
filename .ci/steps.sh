# What .ci/run and .ci/verify share: steps that keep a log, and say how long they took
# and how they ended. Sourced by bash, in the root of the repository.

logs=${LOCKD_LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/lockd-logs-XXXXXX")}
mkdir -p "$logs"
running= beside=
# shellcheck disable=SC2086 # either may be empty
ends() { kill $running $beside 2>/dev/null; }
trap ends EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# limited NAME SECONDS COMMAND...: runs the command, for so long at most, into its log.
# What it has started ends with it: timeout ends the whole process group.
limited() {
  local name=$1 limit=$2 status=0
  shift 2
  timeout --kill-after=10 "$limit" "$@" >"$logs/$name.log" 2>&1 </dev/null &
  running=$!
  wait "$running" || status=$?
  running=
  if [ "$status" = 124 ]; then echo "it was ended after its limit of $limit s" >>"$logs/$name.log"; fi
  return "$status"
}

# culprits NAME: the tests that failed by a step's log, or else its last line.
culprits() {
  local names
  names=$(grep -oE '^ *--- FAIL: [^ ]+|^[a-z-]+ +.*FAILED: .*|.*RESULT .* fail .*' "$logs/$1.log" | sed -E 's/^ *--- FAIL: //' | head -20)
  if [ -z "$names" ]; then names=$(tail -n 1 "$logs/$1.log"); fi
  printf '%s\n' "$names" | paste -sd ';' -
}

# failure NAME: shows why a step failed, the culprits last.
failure() {
  local first
  first=$(grep -nE -m 1 '^ *--- FAIL: |^panic: |^fatal error: |WARNING: DATA RACE' "$logs/$1.log" | cut -d : -f 1 || true)
  if [ -n "$first" ]; then
    tail -n "+$first" "$logs/$1.log" | head -n 100
    echo "..."
  fi
  tail -n 40 "$logs/$1.log"
  printf '\nFAILED: %s (%s): %s\n' "$1" "$logs/$1.log" "$(culprits "$1")"
}
