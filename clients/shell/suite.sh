#!/bin/sh
# The shell suite: every mode of redis-cli, and redis-benchmark. ../doc.go
# describes its environment and its output. A mode is a function; the table at the end names it.
set -u

first=${CLIENTS_NODES%%,*}
second=$(printf '%s' "$CLIENTS_NODES" | cut -d, -f2)
cluster=${CLIENTS_CLUSTER%%,*}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
number=0

# key sets $key to an unused key.
key() {
	number=$((number + 1))
	key="sh:$1:$$:$number:$(date +%s%N)"
}

# at runs a program of Redis against an address.
at() {
	address=$1 program=$2
	shift 2
	"$program" -h "${address%:*}" -p "${address##*:}" "$@"
}

cli() { at "$first" redis-cli "$@"; }
bench() { at "$first" redis-benchmark "$@"; }

# same fails unless the text equals the wanted one; has fails unless a line matches the pattern.
same() {
	[ "$1" = "$2" ] && return
	printf '%s\n' "it says <$2> and not <$1>"
	return 1
}
has() {
	printf '%s\n' "$2" | grep -qE -- "$1" && return
	printf '%s\n' "nothing of <$2> matches <$1>"
	return 1
}

# appears waits until a file has a line that matches.
appears() {
	for _ in $(seq 100); do
		grep -qE -- "$1" "$2" && return
		sleep 0.05
	done
	printf '%s\n' "<$1> did not appear, only <$(cat "$2")>"
	return 1
}

# during runs an endless program for some seconds, and shows its output.
during() {
	seconds=$1 program=$2
	shift 2
	timeout "$seconds" stdbuf -oL "$program" -h "${first%:*}" -p "${first##*:}" "$@"
	[ $? -eq 124 ] && return
	echo "it ended by itself"
	return 1
}

# --- redis-cli ---

cli_arguments() {
	key arguments
	same OK "$(cli SET "$key" me NX PX 60000)" &&
		same '' "$(at "$second" redis-cli SET "$key" you NX PX 60000)" &&
		same '(nil)' "$(cli --no-raw SET "$key" you NX)" &&
		same 1 "$(cli EVAL "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end" 1 "$key" me)" &&
		has "unknown command 'nonsense'" "$(cli nonsense)" || return
	cli -e nonsense >/dev/null 2>&1 && echo "-e exits with 0 after an error" && return 1
	return 0
}

cli_stdin() {
	key stdin
	same "OK
2
OK
QUEUED
QUEUED
PONG
3" "$(printf 'SET %s 1\nINCR %s\nMULTI\nPING\nINCR %s\nEXEC\n' "$key" "$key" "$key" | cli)"
}

# A terminal makes redis-cli interactive: it asks for COMMAND DOCS, shows the type
# of each reply, and has the state of MULTI and SELECT in its prompt. On a dumb terminal it keeps
# input that was typed before the prompt.
cli_terminal() {
	key terminal
	printf 'SET %s 7\nINCR %s\nMULTI\nINCR %s\nEXEC\nSELECT 3\nGET %s\nhelp getdel\nexit\n' "$key" "$key" "$key" "$key" |
		TERM=dumb timeout 20 script -qec "redis-cli -h ${first%:*} -p ${first##*:}" /dev/null | tr -d '\r' >"$dir/terminal"
	for want in '> OK$' '> \(integer\) 8$' '\(TX\)> QUEUED$' '> 1\) \(integer\) 9$' '\[3\]> \(nil\)$' 'summary:.*delete' 'since:.* 6.2.0' 'group:.* string'; do
		has "$want" "$(cat "$dir/terminal")" || return
	done
}

cli_resp3() {
	key resp3
	cli HSET "$key" field value >/dev/null
	same '1# "field" => "value"' "$(cli -3 --no-raw HGETALL "$key")" &&
		same '1) "field"
2) "value"' "$(cli -2 --no-raw HGETALL "$key")" &&
		same '(nil)' "$(cli -3 --no-raw GET "no$key")" &&
		same '(double) 1.5' "$(cli -3 ZADD "z$key" 1.5 m >/dev/null && cli -3 --no-raw ZSCORE "z$key" m)"
}

cli_formats() {
	key formats
	cli RPUSH "$key" a 'b"c' >/dev/null
	same '"a","b\"c"' "$(cli --csv LRANGE "$key" 0 -1)" &&
		same '["a","b\"c"]' "$(cli --json LRANGE "$key" 0 -1)" &&
		same 'a;b"c' "$(cli --raw -d ';' LRANGE "$key" 0 -1)" &&
		same '{"f":"v"}' "$(cli HSET "h$key" f v >/dev/null && cli --json HGETALL "h$key")" &&
		same 'OK' "$(cli --quoted-input SET "\"$key\\x00\"" v)"
}

cli_input() {
	key input
	same OK "$(printf 'from a pipe' | cli -x SET "$key")" &&
		same OK "$(printf 'a tag' | cli -X tag SET "tag$key" tag)" &&
		same 'a tag' "$(cli GET "tag$key")" &&
		same 'from a pipe' "$(cli GET "$key")"
}

cli_database() {
	key database
	cli -n 3 SET "$key" three >/dev/null
	same '' "$(cli GET "$key")" && same three "$(redis-cli -u "redis://$first/3" GET "$key")"
}

cli_repeat() {
	key repeat
	same '1
2
3' "$(cli -r 3 -i 0.01 INCR "$key")"
}

cli_stat() {
	during 2 redis-cli -i 0.2 --stat >"$dir/stat" && has '^keys +mem +clients' "$(cat "$dir/stat")" &&
		has '^[0-9]+ +[0-9.]+[KMG] +[0-9]+ +0 +[0-9]+ \(\+[0-9]+\) +[0-9]+' "$(cat "$dir/stat")"
}

cli_latency() {
	has '^[0-9]+ [0-9]+ [0-9.]+ [0-9]+$' "$(cli --raw -i 0.3 --latency)" &&
		has '^[0-9]+,[0-9]+,[0-9.]+,[0-9]+$' "$(cli --csv -i 0.3 --latency)"
}

cli_latency_history() {
	during 2 redis-cli --raw -i 0.3 --latency-history >"$dir/history" && has '^[0-9]+ [0-9]+ [0-9.]+ [0-9]+$' "$(cat "$dir/history")"
}

cli_latency_dist() {
	during 2 redis-cli -i 0.3 --latency-dist >"$dir/dist" && has '[^ ]' "$(cat "$dir/dist")"
}

# some_data stores keys for the modes that scan all keys.
some_data() {
	key data
	cli SET "$key:string" "$(seq 200)" >/dev/null && cli HSET "$key:hash" a 1 b 2 c 3 >/dev/null && cli RPUSH "$key:list" a b c d >/dev/null &&
		cli SADD "$key:set" a b >/dev/null && cli ZADD "$key:zset" 1 a 2 b 3 c >/dev/null
}

cli_bigkeys() {
	some_data
	big=$(cli -i 0.01 --bigkeys) || return
	for want in 'Sampled [0-9]+ keys in the keyspace' 'Biggest string found' 'Biggest +hash found' 'Biggest +list found' 'Biggest +set found' 'Biggest +zset found'; do
		has "$want" "$big" || return
	done
}

cli_memkeys() {
	some_data
	big=$(cli --memkeys) || return
	for want in 'Sampled [0-9]+ keys in the keyspace' 'Biggest string found .* has [1-9][0-9]* bytes' 'Biggest +list found .* has [1-9][0-9]* bytes'; do
		has "$want" "$big" || return
	done
}

# Without a policy that counts uses Redis refuses; lockd has no such policy.
cli_hotkeys() {
	some_data
	has 'LFU maxmemory policy is not selected' "$(cli --hotkeys 2>&1)"
}

cli_scan() {
	some_data
	same "$key:hash
$key:list
$key:set
$key:string
$key:zset" "$(cli --scan --pattern "$key:*" | sort)" && same "$key:zset" "$(cli --scan --quoted-pattern "\"$key:z*\"")"
}

cli_pipe() {
	key pipe
	for n in $(seq 1000); do
		printf '*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n' ${#key} "$key" ${#n} "$n"
	done >"$dir/pipe"
	has 'errors: 0, replies: 1000' "$(cli --pipe <"$dir/pipe")" && same 1000 "$(cli GET "$key")" &&
		has 'errors: 1, replies: 2' "$(printf 'SET %s 1\r\nNONSENSE\r\n' "$key" | cli --pipe 2>&1)"
}

cli_eval() {
	key eval
	printf '%s\n' "redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1]) .. '!'" >"$dir/script.lua"
	same 'an argument!' "$(cli --eval "$dir/script.lua" "$key" , 'an argument')"
}

cli_cluster() {
	key cluster
	for address in $(printf '%s' "$CLIENTS_CLUSTER" | tr , ' '); do
		same OK "$(at "$address" redis-cli -c SET "$key" "$address")" && same "$address" "$(at "$cluster" redis-cli -c GET "$key")" || return
	done
	has 'All 16384 slots covered' "$(redis-cli --cluster check "$cluster")" && has 'in 1 (masters|primaries)' "$(redis-cli --cluster info "$cluster")"
}

cli_lru_test() {
	cli CONFIG SET maxmemory 100mb >/dev/null
	during 3 redis-cli --lru-test 1000 >"$dir/lru"
	ended=$?
	cli CONFIG SET maxmemory 0 >/dev/null
	[ $ended -eq 0 ] && has 'Gets/sec' "$(cat "$dir/lru")"
}

cli_subscribe() {
	key subscribe
	redis-cli -h "${first%:*}" -p "${first##*:}" SUBSCRIBE "$key" >"$dir/messages" &
	pid=$!
	appears "^$key\$" "$dir/messages" && at "$second" redis-cli PUBLISH "$key" hello >/dev/null && appears '^hello$' "$dir/messages"
	ok=$?
	kill $pid
	return $ok
}

cli_monitor() {
	key monitor
	redis-cli -h "${first%:*}" -p "${first##*:}" MONITOR >"$dir/monitor" &
	pid=$!
	line='^[0-9]+\.[0-9]{6} \[0 [^]]*:[0-9]+\]'
	appears '^OK$' "$dir/monitor" && cli SET "$key" v >/dev/null && cli EVAL "return KEYS[1]" 1 "$key" >/dev/null &&
		appears "$line \"SET\" \"$key\" \"v\"\$" "$dir/monitor" && appears "$line \"EVAL\" .* \"$key\"\$" "$dir/monitor"
	ok=$?
	kill $pid
	return $ok
}

# A dump and a stream of changes are Redis's own replication: lockd has none, and
# must say so.
cli_rdb() {
	cli --rdb "$dir/dump.rdb" >"$dir/rdb" 2>&1
	ended=$?
	if [ "$CLIENTS_TARGET" = redis ]; then
		same 0 $ended && same REDIS "$(head -c 5 "$dir/dump.rdb")"
	else
		same 1 $ended && has "unknown command 'SYNC'" "$(cat "$dir/rdb")"
	fi
}

# The scene of a program that asks the sentinels after each failed command.
sentinel_failover() {
	[ "$CLIENTS_TARGET" = lockd ] || {
		echo "redis has no failover of a single server here"
		return 3
	}
	key failover
	master=$first longest=0 turn=0 last=$(date +%s%3N)
	end=$((last + 8000)) strike=$((last + 1000))
	while now=$(date +%s%3N) && [ "$now" -lt $end ]; do
		if [ "$now" -gt $strike ]; then
			curl -sf -X POST "$CLIENTS_CONTROL/kill-leader" >/dev/null || return
			strike=$end
		fi
		turn=$((turn + 1))
		if [ "$(timeout 2 redis-cli -h "${master%:*}" -p "${master##*:}" SET "$key" $turn PX 60000 2>&1)" = OK ]; then
			now=$(date +%s%3N)
			[ $((now - last)) -gt $longest ] && longest=$((now - last))
			last=$now
			continue
		fi
		for sentinel in $(printf '%s' "$CLIENTS_SENTINELS" | tr , ' '); do
			told=$(timeout 1 redis-cli -h "${sentinel%:*}" -p "${sentinel##*:}" SENTINEL GET-MASTER-ADDR-BY-NAME "$CLIENTS_MASTER" 2>/dev/null | paste -sd :)
			[ -n "$told" ] && master=$told && break
		done
	done
	curl -sf -X POST "$CLIENTS_CONTROL/heal" >/dev/null || return
	[ $longest -le 3000 ] || {
		echo "no write succeeded for $longest ms"
		return 1
	}
}

# --- redis-benchmark ---

# measured fails unless there is the wanted number of figures, and no error.
measured() {
	lines=$(printf '%s\n' "$2" | tr '\r' '\n')
	[ "$(printf '%s\n' "$lines" | grep -cE '[0-9.]+ requests per second')" -eq "$1" ] &&
		! printf '%s\n' "$lines" | grep -qi error && return
	printf '%s\n' "not $1 figures: $lines"
	return 1
}

# All tests of a default run that the installed version has.
bench_default() {
	measured 20 "$(bench -q -n 300 -c 10 2>&1)"
}

bench_pipeline() { measured 2 "$(bench -q -n 2000 -c 10 -P 16 -t set,get 2>&1)"; }
bench_random() { measured 2 "$(bench -q -n 1000 -c 10 -r 1000 -d 200 -t set,sadd 2>&1)"; }
bench_threads() { measured 2 "$(bench -q -n 1000 -c 10 --threads 2 -t set,get 2>&1)"; }
bench_reconnect() { measured 2 "$(bench -q -n 200 -c 5 -k 0 -t set,get 2>&1)"; }
bench_resp3() { measured 2 "$(bench -3 -q -n 500 -c 10 -t set,get 2>&1)"; }
bench_tracking() { measured 2 "$(bench -3 -q -n 500 -c 10 --enable-tracking -t set,get 2>&1)"; }
bench_command() { measured 1 "$(bench -q -n 500 -c 10 EVAL "return redis.call('incr', KEYS[1])" 1 "sh:bench:__rand_int__" 2>&1)"; }

# redis-benchmark does not accept a cluster with a single master.
bench_cluster() {
	said=$(at "$cluster" redis-benchmark --cluster -q -n 500 -c 10 -t set,get 2>&1)
	has 'Invalid cluster: 1 node' "$said" || return
	echo "redis-benchmark refuses a cluster of one master"
	return 3
}

bench_csv() { has '^"GET","[0-9.]+","[0-9.]+"' "$(bench --csv -n 500 -c 10 -t get 2>&1)"; }
bench_idle() { during 1 redis-benchmark -I -c 10; }

# show plays a scene and prints its result.
show() {
	client=$1 mode=$2 scene=$3
	$4 >"$dir/words" 2>&1
	case $? in
	0) verdict=ok words= ;;
	3) verdict=none words=$(cat "$dir/words") ;;
	*) verdict=fail words=$(tr '\n' ' ' <"$dir/words" | tail -c 600) failed=1 ;;
	esac
	echo "RESULT $client $version $mode $scene $verdict $words"
}

version=$(redis-cli --version | awk '{print $2}')
show redis-cli arguments commands cli_arguments
show redis-cli stdin commands cli_stdin
show redis-cli terminal commands cli_terminal
show redis-cli -3 commands cli_resp3
show redis-cli --csv,--json commands cli_formats
show redis-cli -x,-X commands cli_input
show redis-cli -n,-u commands cli_database
show redis-cli -r commands cli_repeat
show redis-cli --stat commands cli_stat
show redis-cli --latency commands cli_latency
show redis-cli --latency-history commands cli_latency_history
show redis-cli --latency-dist commands cli_latency_dist
show redis-cli --bigkeys commands cli_bigkeys
show redis-cli --memkeys commands cli_memkeys
show redis-cli --hotkeys commands cli_hotkeys
show redis-cli --scan commands cli_scan
show redis-cli --pipe commands cli_pipe
show redis-cli --eval commands cli_eval
show redis-cli -c,--cluster commands cli_cluster
show redis-cli --lru-test commands cli_lru_test
show redis-cli SUBSCRIBE commands cli_subscribe
show redis-cli --rdb commands cli_rdb
show redis-cli MONITOR commands cli_monitor
show redis-cli sentinel failover sentinel_failover

version=$(redis-benchmark --version | awk '{print $2}')
show redis-benchmark default commands bench_default
show redis-benchmark -P commands bench_pipeline
show redis-benchmark -r,-d commands bench_random
show redis-benchmark --threads commands bench_threads
show redis-benchmark -k commands bench_reconnect
show redis-benchmark -3 commands bench_resp3
show redis-benchmark --enable-tracking commands bench_tracking
show redis-benchmark command commands bench_command
show redis-benchmark --cluster commands bench_cluster
show redis-benchmark --csv commands bench_csv
show redis-benchmark -I commands bench_idle

exit $failed
