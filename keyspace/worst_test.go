package keyspace

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/keyspace/command"
	"lockd/keyspace/history"
	"lockd/keyspace/library"
	"lockd/keyspace/lock"
	"lockd/keyspace/meter"
	"lockd/keyspace/store"
	"lockd/keyspace/value"
	"lockd/keyspace/wait"
	"lockd/luavm"
	"lockd/resp"
)

// worstSize is how large the arguments and the data of the worst cases are.
type worstSize struct {
	elements   int // of a large aggregate, keys of a database
	bigs       int // elements of an aggregate of long ones
	bigBytes   int // of such an element, of a long key
	small      int // elements of a small form
	names      int // arguments of one command
	text       int // bytes of a long string
	waiters    int
	line       int // who wait for one lock
	waiterKeys int // of one of them
	events     int // of a lock
	libraries  int
	sources    int
	functions  int // of a source that takes long to compile
}

var (
	worstGate = worstSize{elements: 400, bigs: 8, bigBytes: 4 << 10, small: 60, names: 200, text: 64 << 10, waiters: 50, line: 60, waiterKeys: 100, events: 200, libraries: 3, sources: 3, functions: 40}
	worstFull = worstSize{elements: 200_000, bigs: 64, bigBytes: 1 << 20, small: value.SmallMax, names: 1 << 20, text: longestString - 1, waiters: 10_000, line: wait.LineMax, waiterKeys: wait.KeysMax, events: history.EventsMax, libraries: 500, sources: 40, functions: 990}
)

// worstCase is a call of a command with the worst arguments: needs are the data that it
// finds. least is how much of one of them it must count for, in elements or bytes. A line may have
// more commands, between semicolons: a transaction or a script repeats all of them, as where the first
// one is of no more use before the last has put back what it found.
type worstCase struct {
	needs, line string
	least       int
}

// cheap are the commands that take the same time whatever they are given, but for the
// length of their arguments.
var cheap = strings.Fields(`time select ping echo dbsize
	acl|cat acl|genpass acl|help acl|list acl|log acl|save acl|users acl|whoami
	config|resetstat config|rewrite config|help memory|malloc-stats memory|purge memory|help memory|stats
	object|help locks|help script|kill script|help script|flush function|kill function|help function|stats function|flush xinfo|help`)

// keyed are those of them that look for one key: what stands behind it.
var keyed = map[string]string{
	"get": "", "getdel": "", "getex": "PX 5000", "getset": "v", "set": "v", "setnx": "v", "setex": "10 v", "psetex": "10 v", "append": "v", "strlen": "",
	"getrange": "0 -1", "substr": "0 -1", "setrange": "0 v", "incr": "", "decr": "", "incrby": "1", "decrby": "1", "incrbyfloat": "1",
	"type": "", "expire": "100", "pexpire": "100", "expireat": "9999999999", "pexpireat": "9999999999999", "ttl": "", "pttl": "", "expiretime": "", "pexpiretime": "",
	"persist": "", "fence": "", "move": "1", "rename": "to", "renamenx": "to", "copy": "to REPLACE", "delex": "", "delifeq": "v", "digest": "",
	"lock": "t PX 5000", "renew": "t PX 5000", "unlock": "t",
	"locks|info": "", "locks|history": "", "locks|why": "t", "locks|force": "REASON r",
	"hlen": "", "llen": "", "scard": "", "zcard": "", "xlen": "", "lpushx": "v", "rpushx": "v", "lindex": "0",
	"object|encoding": "", "object|freq": "", "object|idletime": "", "object|refcount": "", "memory|usage": "",
}

// locksInTurn have locks change their holders, or their keys, again and again.
var locksInTurn = map[string][]worstCase{
	"pexpire": {{"hashlock", "PEXPIRE HL 90000 ; PEXPIRE HL 90001", store.HashHoldersMax}, {"held", "PEXPIRE R 90000 ; PEXPIRE R 90001", lock.HoldersMax}},
	"persist": {{"hashlock", "PERSIST HL ; PEXPIRE HL 90000", store.HashHoldersMax}, {"held", "PERSIST R ; PEXPIRE R 90000", lock.HoldersMax}},
	"hset":    {{"hashlock", "HSET HL more{unique} 1", store.HashHoldersMax}, {"hashlock", "HSET HL mode read ; HDEL HL mode", store.HashHoldersMax}},
	"hincrby": {{"hashlock", "HINCRBY HL {holder} 1 ; PEXPIRE HL 90000 ; PEXPIRE HL 90001", store.HashHoldersMax}},
	"hdel":    {{"hashlock", "HDEL HL {holder} ; HSET HL {holder} 1", store.HashHoldersMax}},
	"rename":  {{"hashlock", "RENAME HL HM ; RENAME HM HL", store.HashHoldersMax * meter.EventWork}, {"held", "RENAME R M ; RENAME M R", lock.HoldersMax * meter.EventWork}},
	"copy":    {{"hashlock", "COPY HL HM REPLACE", store.HashHoldersMax * meter.EventWork}, {"held", "COPY R M REPLACE", lock.HoldersMax * meter.EventWork}},
	"move":    {{"hashlock", "MOVE HL 1 ; SELECT 1 ; MOVE HL 0 ; SELECT 0", store.HashHoldersMax * meter.EventWork}, {"held", "MOVE R 1 ; SELECT 1 ; MOVE R 0 ; SELECT 0", lock.HoldersMax * meter.EventWork}},
	"set":     {{"held", "COPY R M REPLACE ; SET M v", lock.HoldersMax * meter.EventWork}},
	"del":     {{"hashlock", "DEL HL", store.HashHoldersMax * meter.EventWork}, {"held", "DEL R", lock.HoldersMax * meter.EventWork}},
	"unlock":  {{"held", "UNLOCK R t7 ; LOCK R t7 PX 5000 SHARED", lock.HoldersMax}},
	"locks|force": {
		{"hashlock", "LOCKS FORCE HL TOKEN {holder} REASON r ; HSET HL {holder} 1", store.HashHoldersMax},
		{"held", "COPY R M REPLACE ; LOCKS FORCE M REASON r", lock.HoldersMax * meter.EventWork},
	},
	"rpush":    {{"waited", "RPUSH w {names:e}", 1}},
	"flushall": {{"held", "FLUSHALL", 1}, {"waited", "FLUSHALL", 1}}, "swapdb": {{"held", "SWAPDB 0 1", 1}},
}

// worstCases has the others, and the worst of the above where it is not the key.
func worstCases(z worstSize) map[string][]worstCase {
	n, big, bytes := z.elements, z.bigBytes, z.bigs*z.bigBytes
	names, pairs := z.names, z.names/2
	fields := min(names, n)
	held := lock.HoldersMax * 100
	cases := map[string][]worstCase{
		// strings
		"setrange": {{"text", "SETRANGE S 0 y", z.text - 100}}, "append": {{"text", "APPEND S y", z.text - 100}},
		"digest": {{"text", "DIGEST S", z.text - 100}}, "incrbyfloat": {{"numeral", "INCRBYFLOAT F 1e-3000", 5000}, {"", "INCRBYFLOAT F2 1e4000", 100}},
		"mget": {{"keys", "MGET {names:k}", names * 100}}, "mset": {{"", "MSET {pairs:n}", pairs * 100}, {"keys notify", "MSET {pairs:k}", pairs * 100}},
		"msetnx": {{"", "MSETNX {pairs:n}", pairs * 100}}, "msetex": {{"keys", "MSETEX {npairs} {pairs:k} PX 50000", pairs * 100}},
		"get": {{"text", "GET S", z.text - 100}}, "getset": {{"text", "GETSET S y", 1}},
		"set": {{"text", "SET S2 {text} IFEQ x", 1}, {"text", "SET S {text} IFEQ {text}", 1}},
		// users
		"acl|getuser": {{"", "ACL GETUSER default", 1}}, "acl|dryrun": {{"", "ACL DRYRUN default GET", 1}},
		"acl|load":    {{"", "ACL LOAD {users}", names}},
		"acl|setuser": {{"", "ACL SETUSER u {names:~k}", 1000}}, "acl|deluser": {{"", "ACL DELUSER {names:u}", 1000}},
		// keys
		"del": {{"keys", "DEL {names:k}", names * 100}, {"keys notify", "DEL {names:k}", fields * 100}, {"locks", "DEL {names:k}", fields * 1000}}, "unlink": {{"leased", "UNLINK {names:k}", names * 100}},
		"exists": {{"keys", "EXISTS {names:k}", names * 100}, {"", "EXISTS {big}", big}}, "touch": {{"keys", "TOUCH {names:k}", names * 100}},
		"randomkey": {{"due", "RANDOMKEY", n}}, "keys": {{"keys", "KEYS *a*a*a*b", n}, {"bigkeys", "KEYS *x*x*y", bytes}},
		"scan":   {{"keys", "SCAN 0 COUNT 1000000000 MATCH *a*a*b", n}, {"keys", "SCAN 0 COUNT 1000000000 TYPE hash", n}, {"bigkeys", "SCAN 0 COUNT 1000000 MATCH *x*x*y", bytes}},
		"rename": {{"hash", "RENAME H H2", 1}, {"line list", "RENAME L door", z.waiters}}, "copy": {{"smallhash", "COPY HS H2 REPLACE", z.small * 8}, {"bighash", "COPY HB H2 REPLACE", 1}},
		"flushdb": {{"keys", "FLUSHDB", 500}}, "flushall": {{"keys", "FLUSHALL", 5000}, {"lines", "FLUSHALL", z.waiters}, {"sharers", "FLUSHALL", z.waiters}, {"owner", "FLUSHALL", z.waiters}}, "swapdb": {{"waiters", "SWAPDB 0 1", z.waiters}, {"readers keys", "SWAPDB 0 1", 1}},
		// hashes
		"hset": {{"", "HSET H {pairs:f}", pairs * 100}, {"smallhash", "HSET HS f1 v", z.small}, {"bighash", "HSET HB {big} v", big}}, "hmset": {{"hash", "HMSET H {pairs:f}", pairs * 100}},
		"hsetnx": {{"smallhash", "HSETNX HS none v", z.small}}, "hget": {{"smallhash", "HGET HS none", z.small}, {"bighash", "HGET HB {big}", big}}, "hmget": {{"hash", "HMGET H {names:f}", names * 100}},
		"hgetall": {{"hash", "HGETALL H", n}, {"bighash", "HGETALL HB", bytes}}, "hkeys": {{"hash", "HKEYS H", n}}, "hvals": {{"hash", "HVALS H", n}}, "hexists": {{"smallhash", "HEXISTS HS none", z.small}},
		"hstrlen": {{"smallhash", "HSTRLEN HS none", z.small}}, "hdel": {{"hash", "HDEL H {names:f}", names * 100}, {"smallhash", "HDEL HS {names:f}", z.small * min(names, z.small)}},
		"hincrby": {{"smallhash", "HINCRBY HS none 1", z.small}}, "hincrbyfloat": {{"numeral", "HINCRBYFLOAT HF f 1e-3000", 5000}},
		"hscan": {{"hash", "HSCAN H 0 COUNT 100000000 MATCH *a*a*b", n}, {"smallhash", "HSCAN HS 0 COUNT 1", z.small}}, "hrandfield": {{"hash", "HRANDFIELD H -{draws} WITHVALUES", 1000}, {"hash", "HRANDFIELD H {most}", n / 2}},
		// lists
		"lpush": {{"", "LPUSH L {names:e}", names * 10}, {"biglist", "LPUSH LB {big}", big}}, "rpush": {{"", "RPUSH L {names:e}", names * 10}}, "lpop": {{"list", "LPOP L {n}", n}}, "rpop": {{"list", "RPOP L {n}", n}},
		"lrange": {{"list", "LRANGE L 0 -1", n}, {"biglist", "LRANGE LB 0 -1", 1}}, "lset": {{"list", "LSET L 1 v", 1}, {"biglist", "LSET LB 1 v", 1}}, "linsert": {{"list", "LINSERT L BEFORE none v", n}, {"biglist", "LINSERT LB BEFORE {big} v", bytes}},
		"lrem": {{"list", "LREM L 0 none", n}, {"alternating", "LREM LA 0 a", n}, {"biglist", "LREM LB 0 {big}", bytes}}, "ltrim": {{"list", "LTRIM L 1 -2", 1}}, "lpos": {{"list", "LPOS L none", n}, {"biglist", "LPOS LB {big}", bytes}, {"alternating", "LPOS LA a COUNT 0", n}},
		"lmove": {{"list", "LMOVE L L LEFT RIGHT", 1}}, "rpoplpush": {{"list", "RPOPLPUSH L L", 1}}, "lmpop": {{"list", "LMPOP 1 L LEFT COUNT {n}", n}, {"", "LMPOP {nnames} {names:k} LEFT", names * 100}},
		// sets
		"sadd": {{"", "SADD T {names:m}", names * 100}, {"set", "SADD T {names:m}", names * 100}, {"smallset", "SADD TS none{big}", z.small}, {"ints", "SADD TI none", z.small}, {"bigset", "SADD TB {big}", big}}, "srem": {{"set", "SREM T {names:m}", names * 100}, {"smallset", "SREM TS {names:none}", z.small * names}},
		"sismember": {{"smallset", "SISMEMBER TS none", z.small}, {"bigset", "SISMEMBER TB {big}", big}}, "smismember": {{"set", "SMISMEMBER T {names:m}", names * 100}}, "smembers": {{"set", "SMEMBERS T", n}, {"ints", "SMEMBERS TI", z.small}},
		"spop": {{"set", "SPOP T {most}", n / 2}, {"smallset", "SPOP TS", z.small}}, "srandmember": {{"set", "SRANDMEMBER T -{draws}", 1000}, {"set", "SRANDMEMBER T {most}", n / 2}}, "smove": {{"bigset smallset", "SMOVE TB TS {bigmember}", big}},
		"sinter": {{"set", "SINTER T T2", n * 100}, {"bigset", "SINTER TB TB2", bytes}}, "sinterstore": {{"set", "SINTERSTORE d T T2", n * 100}, {"bigset", "SINTERSTORE d TB TB2", bytes}}, "sintercard": {{"set", "SINTERCARD 2 T T2", n * 100}, {"bigset", "SINTERCARD 2 TB TB2", bytes}},
		"sunion": {{"set", "SUNION T T2", n * 100}, {"bigset", "SUNION TB TB2", bytes}}, "sunionstore": {{"set", "SUNIONSTORE d T T2", n * 100}, {"bigset", "SUNIONSTORE d {200:TB}", bytes}, {"bigset", "SUNIONSTORE d TB TB2", bytes}, {"smallset", "SUNIONSTORE d TS TS", z.small}},
		"sdiff": {{"set", "SDIFF T T2", n * 100}, {"bigset", "SDIFF TB TB2", bytes}}, "sdiffstore": {{"set", "SDIFFSTORE d T none", n * 100}, {"bigset", "SDIFFSTORE d TB TB2", bytes}},
		"sscan": {{"set", "SSCAN T 0 COUNT 100000000 MATCH *a*a*b", n}, {"bigset", "SSCAN TB 0 COUNT 1000 MATCH *x*x*y", bytes}},
		// sorted sets
		"zadd": {{"", "ZADD Z {scored:m}", pairs * 100}, {"zset", "ZADD Z {scored:m}", pairs * 100}, {"smallzset", "ZADD ZS 1 {big}", z.small}, {"bigzset", "ZADD ZB 1 {big}", big}, {"", "ZADD Z 0.{digits} m", 1}}, "zincrby": {{"zset", "ZINCRBY Z 1 m1", 1}, {"bigzset", "ZINCRBY ZB 1 {bigmember}", big}},
		"zrem": {{"zset", "ZREM Z {names:m}", names * 100}}, "zscore": {{"smallzset", "ZSCORE ZS none", z.small}, {"bigzset", "ZSCORE ZB {big}", big}}, "zmscore": {{"zset", "ZMSCORE Z {names:m}", names * 100}}, "zrank": {{"bigzset", "ZRANK ZB {bigmember}", big}}, "zrevrank": {{"bigzset", "ZREVRANK ZB {bigmember}", big}},
		"zpopmin": {{"zset", "ZPOPMIN Z {n}", n * 100}}, "zpopmax": {{"zset", "ZPOPMAX Z {n}", n * 100}, {"bigzset", "ZPOPMAX ZB 5", 5 * big}}, "zmpop": {{"zset", "ZMPOP 1 Z MIN COUNT {n}", n * 100}}, "zrandmember": {{"zset", "ZRANDMEMBER Z -{draws} WITHSCORES", 1000}, {"zset", "ZRANDMEMBER Z {most}", n / 2}},
		"zscan": {{"zset", "ZSCAN Z 0 COUNT 100000000 MATCH *a*a*b", n}}, "zrange": {{"zset", "ZRANGE Z 0 -1 WITHSCORES", n}, {"bigzset", "ZRANGE ZB [{bigmember} [{bigmember} BYLEX", big}}, "zrevrange": {{"zset", "ZREVRANGE Z 0 -1", n}},
		"zrangebyscore": {{"zset", "ZRANGEBYSCORE Z -inf +inf", n}}, "zrevrangebyscore": {{"zset", "ZREVRANGEBYSCORE Z +inf -inf", n}}, "zrangebylex": {{"zset", "ZRANGEBYLEX Z - +", n}}, "zrevrangebylex": {{"zset", "ZREVRANGEBYLEX Z + -", n}},
		"zrangestore": {{"zset", "ZRANGESTORE d Z 0 -1", n * 100}, {"bigzset", "ZRANGESTORE d ZB 0 -1", bytes}}, "zcount": {{"zset", "ZCOUNT Z 0 500", 1}}, "zlexcount": {{"bigzset", "ZLEXCOUNT ZB [{bigmember} +", big}},
		"zremrangebyrank": {{"zset", "ZREMRANGEBYRANK Z 0 -2", n * 100}}, "zremrangebyscore": {{"zset", "ZREMRANGEBYSCORE Z 1 +inf", n * 100}}, "zremrangebylex": {{"zset", "ZREMRANGEBYLEX Z - +", 1}},
		"zunion": {{"zset set", "ZUNION 2 Z T", n * 100}, {"bigzset", "ZUNION 2 ZB ZB", bytes}}, "zinter": {{"zset set", "ZINTER 2 Z T", n * 100}}, "zdiff": {{"zset set", "ZDIFF 2 Z T", n * 100}}, "zintercard": {{"zset set", "ZINTERCARD 2 Z T", n * 100}, {"bigzset bigset", "ZINTERCARD 2 ZB TB", 1}},
		"zunionstore": {{"zset set", "ZUNIONSTORE d 2 Z T", n * 100}, {"bigzset", "ZUNIONSTORE d 1 ZB WEIGHTS 0", bytes}}, "zinterstore": {{"zset set", "ZINTERSTORE d 2 Z T", n * 100}, {"bigzset", "ZINTERSTORE d 2 ZB ZB", bytes}}, "zdiffstore": {{"zset", "ZDIFFSTORE d 1 Z", n * 100}, {"bigzset", "ZDIFFSTORE d 1 ZB", bytes}},
		// streams
		"xadd": {{"readers", "XADD X 1-* f v", z.waiters}, {"stream", "XADD X MAXLEN 1 * f v", n}, {"", "XADD X * f {big}", big}}, "xtrim": {{"stream", "XTRIM X MAXLEN 1", n}}, "xrange": {{"stream", "XRANGE X - +", n}}, "xrevrange": {{"stream", "XREVRANGE X + -", n}},
		"xdel": {{"stream", "XDEL X {names:1-}", names * 100}}, "xsetid": {{"stream", "XSETID X 99999999-1", 1}}, "xinfo|stream": {{"stream", "XINFO STREAM X FULL COUNT 0", n}}, "xread": {{"stream", "XREAD STREAMS X 0", n}, {"", "XREAD STREAMS {half:k} {half:1-}", names * 50}},
		// scripts
		"eval": {{"", "EVAL {source} 0", z.functions * 16}, {"", "EVAL {small} 0", 1000}}, "eval_ro": {{"", "EVAL_RO {source} 0", z.functions * 16}}, "script|load": {{"", "SCRIPT LOAD {source}", z.functions * 16}, {"scripts", "EVAL {small} 0", z.elements}},
		"evalsha": {{"sources", "EVALSHA {sha} 0", z.functions * 16}}, "evalsha_ro": {{"sources", "EVALSHA_RO {sha} 0", z.functions * 16}}, "script|exists": {{"", "SCRIPT EXISTS {names:s}", names * 10}},
		"fcall": {{"libraries", "FCALL {function} 0", 1000}}, "fcall_ro": {{"libraries", "FCALL_RO {function} 0", 1000}}, "function|load": {{"", "FUNCTION LOAD REPLACE {library}", z.functions * 16}}, "function|delete": {{"libraries", "FUNCTION DELETE lib1", 1}},
		"function|list": {{"libraries", "FUNCTION LIST WITHCODE", z.libraries * 100}}, "function|dump": {{"libraries", "FUNCTION DUMP", z.libraries * 100}}, "function|restore": {{"libraries", "FUNCTION RESTORE {dump} REPLACE", z.libraries * 1000}},
		// others
		"config|get": {{"", "CONFIG GET {names:*a*b}", names * 1000}, {"", "CONFIG GET {big}", big}}, "config|set": {{"", "CONFIG SET timeout {n}", 1000}, {"", "CONFIG SET notify-keyspace-events {letters}", 1}},
		"publish": {{"", "PUBLISH c v", 1000}}, "spublish": {{"", "SPUBLISH c v", 1000}},
		"lock":          {{"held", "LOCK R t1 PX 5000 SHARED OWNER o NOTE n", held}, {"held", "LOCK R none PX 5000", held}},
		"locks|list":    {{"locks", "LOCKS LIST COUNT {n}", n * 100}, {"locks", "LOCKS LIST MATCH *a*a*b", n * 100}, {"held locks", "LOCKS LIST", held}, {"events", "LOCKS LIST", z.events}, {"held locks events", "LOCKS LIST CURSOR 0 COUNT {n}", held}},
		"locks|graph":   {{"line", "LOCKS GRAPH COUNT {n}", z.waiters * 100}, {"lines", "LOCKS GRAPH COUNT {n}", z.waiters * 100}},
		"locks|info":    {{"held", "LOCKS INFO R", held}, {"line", "LOCKS INFO door", z.waiters * 100}, {"locks", "LOCKS INFO k1", n}},
		"locks|history": {{"events", "LOCKS HISTORY E COUNT {n}", z.events * 100}, {"events", "LOCKS HISTORY E COUNT 1000000", z.events * 100}, {"locks", "LOCKS HISTORY none COUNT 1000000", n}, {"events", "LOCKS HISTORY E CURSOR 0 COUNT {n}", z.events * 100}, {"locks", "LOCKS HISTORY none", n}},
		"locks|force":   {{"held", "LOCKS FORCE R TOKEN t{unique} REASON r", held}, {"held", "LOCKS FORCE R REASON r", held}},
		"locks|doctor":  {{"events", "LOCKS DOCTOR", z.events * 100}, {"ends", "LOCKS DOCTOR", z.events * 100}},
		"locks|advice":  {{"events", "LOCKS ADVICE", z.events * 100}, {"events", "LOCKS ADVICE *a*a*b", z.events * 100}, {"ends", "LOCKS ADVICE", z.events * 100}},
		"locks|why":     {{"events", "LOCKS WHY E none", z.events * 100}, {"line", "LOCKS WHY door none", z.waiters * 100}, {"held", "LOCKS WHY R none", held}},
		"renew":         {{"held", "RENEW R t1 PX 5000", held}}, "unlock": {{"held", "UNLOCK R t{unique}", held}}, "pexpire": {{"held", "PEXPIRE R 5000", held}},
		"blpop": {{"", "BLPOP {names:k} 0", 1}}, "brpop": {{"", "BRPOP {names:k} 0", 1}}, "blmove": {{"list", "BLMOVE L L LEFT RIGHT 0", 1}}, "brpoplpush": {{"list", "BRPOPLPUSH L L 0", 1}}, "blmpop": {{"list", "BLMPOP 0 1 L LEFT COUNT {n}", n}},
		"bzpopmin": {{"zset", "BZPOPMIN Z 0", 1}}, "bzpopmax": {{"zset", "BZPOPMAX Z 0", 1}}, "bzmpop": {{"zset", "BZMPOP 0 1 Z MIN COUNT {n}", n}},
	}
	cases["(ask)"] = []worstCase{
		{"session", "(ask) BLPOP {few:k} 0", 1},
		{"stuck", "(ask) LOCK own t PX 5000 WAIT 60000 OWNER a", value.FindWork * lock.CircleLooksMax},
	}
	cases["(ask)"] = append(cases["(ask)"], worstCase{"session", "(ask) BLPOP {waited:k} 0", z.waiterKeys * value.FindWork})
	cases["(close)"] = []worstCase{{"waiters", "(close)", z.waiters * 60 * value.FindWork}, {"manykeys", "(close)", z.waiterKeys * value.FindWork}}
	cases["(tick)"] = []worstCase{{"manykeys", "(tick)", 0}, {"waiters", "(tick)", 0}, {"held", "(tick)", 0}}
	for name, list := range locksInTurn {
		cases[name] = append(cases[name], list...)
	}
	for name, rest := range keyed {
		for _, of := range []worstCase{{"", " {big} ", big}, {"hashlock", " HL ", 1}, {"held", " R ", 1}, {"line", " door ", 1}, {"waited", " w ", 1}} {
			line := strings.ReplaceAll(name, "|", " ") + of.line + rest
			cases[name] = append(cases[name], worstCase{of.needs, line, of.least})
		}
	}
	for _, name := range cheap {
		cases[name] = append(cases[name], worstCase{"session", cheapLine(name), 1})
	}
	return cases
}

func cheapLine(name string) string {
	line := strings.ReplaceAll(name, "|", " ")
	switch name {
	case "select":
		line += " 1"
	case "echo":
		line += " {big}"
	}
	return line
}

// worstStage is a machine with what a case needs.
type worstStage struct {
	testing.TB
	z     worstSize
	m     *Machine
	index uint64
	dump  string
}

func newWorstStage(t testing.TB, z worstSize, needs string) *worstStage {
	s := &worstStage{TB: t, z: z, m: New(luavm.New())}
	for _, need := range strings.Fields(needs) {
		s.provide(need)
	}
	return s
}

func (s *worstStage) do(args ...string) resp.Reply {
	return s.send(resp.Request{Cmds: []resp.Cmd{{Args: args}}})
}

func (s *worstStage) send(req resp.Request) resp.Reply {
	s.index++
	results, _ := s.m.Apply(resp.Stamp{Tick: 10, Index: s.index}, []resp.Request{req})
	if len(results[0].Replies) == 0 || results[0].Replies[0].IsErr() {
		s.Fatalf("%.100q: %.200q", fmt.Sprint(req.Cmds), fmt.Sprint(results[0].Replies))
	}
	return results[0].Replies[0]
}

// fill calls a command with n elements, some at a time.
func (s *worstStage) fill(n int, name, key string, element func(i int) []string) {
	for i := 0; i < n; {
		args := []string{name}
		if key != "" {
			args = append(args, key)
		}
		for range 1000 {
			if i < n {
				args = append(args, element(i)...)
			}
			i++
		}
		s.do(args...)
	}
}

func prefixed(prefix string) func(i int) []string {
	return func(i int) []string { return []string{prefix + strconv.Itoa(i)} }
}

// big is a long element: all have the same beginning and the same length.
func (s *worstStage) big(i int) string {
	return strings.Repeat("x", s.z.bigBytes-8) + fmt.Sprintf("%08d", i)
}

func (s *worstStage) fillBig(name, key string, more ...string) {
	for i := range s.z.bigs {
		s.do(append(append([]string{name, key}, more...), s.big((i*37)%s.z.bigs))...)
	}
}

// source is a script, different for each i, that takes long to compile.
func (s *worstStage) source(i int) string {
	return "local n = " + strconv.Itoa(i) + "\nif n < 0 then " + strings.Repeat("f(function()end)", s.z.functions) + " end "
}

func (s *worstStage) provide(need string) {
	z := s.z
	pairs := func(prefix string) func(i int) []string {
		return func(i int) []string { return []string{prefix + strconv.Itoa(i), "v"} }
	}
	scored := func(i int) []string { return []string{strconv.Itoa(i), "m" + strconv.Itoa(i)} }
	config := func(kind string) {
		s.do("CONFIG", "SET", kind+"-max-listpack-entries", "1000000", kind+"-max-listpack-value", "100000000")
	}
	switch need {
	case "text":
		s.do("SETRANGE", "S", strconv.Itoa(z.text-100), "x")
	case "numeral":
		s.do("SET", "F", "0."+strings.Repeat("3", 5000))
		s.do("HSET", "HF", "f", "0."+strings.Repeat("3", 5000))
	case "keys":
		s.fill(z.elements, "MSET", "", pairs("k"))
	case "leased":
		for i := range z.elements {
			s.do("SET", "k"+strconv.Itoa(i), "v", "PX", "100000")
		}
	case "due":
		for i := range z.elements {
			s.do("SET", "k"+strconv.Itoa(i), "v", "PX", "1")
		}
	case "bigkeys":
		for i := range z.bigs {
			s.do("SET", s.big(i), "v")
		}
	case "notify":
		s.do("CONFIG", "SET", "notify-keyspace-events", "KEA")
	case "hash":
		s.fill(z.elements, "HSET", "H", pairs("f"))
	case "smallhash":
		config("hash")
		s.fill(z.small, "HSET", "HS", pairs("f"))
	case "bighash":
		s.fillBig("HSET", "HB", "f")
		for i := range z.bigs {
			s.do("HSET", "HB", s.big(i), "v")
		}
	case "list":
		s.fill(z.elements, "RPUSH", "L", prefixed("e"))
	case "alternating":
		s.fill(z.elements, "RPUSH", "LA", func(int) []string { return []string{"a", "b"} })
	case "biglist":
		s.fillBig("RPUSH", "LB")
	case "set":
		s.fill(z.elements, "SADD", "T", prefixed("m"))
		s.fill(z.elements, "SADD", "T2", prefixed("m"))
	case "smallset":
		config("set")
		s.fill(z.small, "SADD", "TS", prefixed("m"))
	case "ints":
		s.do("CONFIG", "SET", "set-max-intset-entries", "1000000")
		s.fill(z.small, "SADD", "TI", prefixed(""))
	case "bigset":
		s.fillBig("SADD", "TB")
		s.fillBig("SADD", "TB2")
	case "zset":
		s.fill(z.elements, "ZADD", "Z", scored)
	case "smallzset":
		config("zset")
		s.fill(z.small, "ZADD", "ZS", scored)
	case "bigzset":
		s.fillBig("ZADD", "ZB", "1")
	case "stream":
		for i := range z.elements {
			s.do("XADD", "X", "1-"+strconv.Itoa(i+1), "f", "v")
		}
	case "session":
		s.send(resp.BlockOpening("", 0))
	case "readers", "waiters":
		s.send(resp.BlockOpening("", 0))
		for i := range z.waiters {
			args := resp.Args{"XREAD", "BLOCK", "0", "STREAMS", "X", "99999999-0"}
			if need == "waiters" {
				args = resp.Args{"BLPOP"}
				for j := range 60 {
					args = append(args, fmt.Sprintf("w%d.%d", i, j))
				}
				args = append(args, "0")
			}
			s.send(asking(1, uint64(i+1), 0, args))
		}
	case "manykeys":
		s.send(resp.BlockOpening("", 0))
		for i := range 36 {
			args := resp.Args{"BLPOP"}
			for j := range z.waiterKeys {
				args = append(args, fmt.Sprintf("w%d.%d", i, j))
			}
			s.send(asking(1, uint64(i+1), 0, append(args, "1")))
		}
	case "line", "lines":
		s.send(resp.BlockOpening("", 0))
		waiters := z.line
		if need == "lines" {
			waiters = z.waiters
		}
		for i := range waiters {
			door := "door"
			if need == "lines" {
				door += strconv.Itoa(i)
			}
			s.do("SET", door, "me")
			s.send(asking(1, uint64(i+1), 0, resp.Args{"LOCK", door, strconv.Itoa(i), "PX", "5000", "WAIT", "60000"}))
		}
	case "sharers":
		s.send(resp.BlockOpening("", 0))
		for i := range z.waiters {
			door := "door" + strconv.Itoa(i/lock.HoldersMax)
			s.do("SET", door, "me")
			s.send(asking(1, uint64(i+1), 0, resp.Args{"LOCK", door, strconv.Itoa(i), "PX", "5000", "WAIT", "60000", "SHARED"}))
		}
	case "owner": // who gets each of these locks waits for all others
		s.send(resp.BlockOpening("", 0))
		for i := range z.waiters {
			door := "door" + strconv.Itoa(i/2)
			s.do("SET", door, "me")
			lock := resp.Args{"LOCK", door, strconv.Itoa(i), "PX", "5000", "WAIT", "60000", "OWNER", "o"}
			s.send(asking(1, uint64(i+1), 0, lock))
		}
	case "stuck": // b waits for what a holds
		s.send(resp.BlockOpening("", 0))
		s.do("LOCK", "own", "b", "PX", "100000", "OWNER", "b")
		for i := range lock.CircleLooksMax / lock.HoldersMax {
			for j := range lock.HoldersMax {
				s.do("LOCK", "r"+strconv.Itoa(i), strconv.Itoa(j), "PX", "100000", "SHARED", "OWNER", "a")
			}
			lock := resp.Args{"LOCK", "r" + strconv.Itoa(i), "b", "PX", "5000", "WAIT", "60000", "OWNER", "b"}
			s.send(asking(1, uint64(i+1), 0, lock))
		}
	case "hashlock":
		hold := "for i = 1, 64 do redis.call('hset', 'HL', ARGV[i], 1) if i == 1 then redis.call('pexpire', 'HL', 100000) end end return 1"
		args := []string{"EVAL", hold, "0"}
		for i := range store.HashHoldersMax {
			args = append(args, tokenOf(i))
		}
		s.do(args...)
		if e, _ := s.m.state.Keys.DBs[0].Keys.Get("HL"); len(e.HashLock().Holders) != store.HashHoldersMax {
			s.Fatalf("%d hold the lock", len(e.HashLock().Holders))
		}
	case "waited": // all wait for keys that one name ends
		s.send(resp.BlockOpening("", 0))
		for i := range z.waiters {
			s.send(asking(1, uint64(i+1), 0, resp.Args{"BLPOP", "w", "0"}))
		}
	case "held":
		for i := range lock.HoldersMax {
			s.do("LOCK", "R", "t"+strconv.Itoa(i), "PX", strconv.Itoa(100_000+i), "SHARED")
		}
	case "locks":
		for i := range z.elements {
			s.do("SET", "k"+strconv.Itoa(i), "token"+strconv.Itoa(i), "NX", "PX", "100000")
		}
	case "events":
		s.do("CONFIG", "SET", "lock-history-max-events", strconv.Itoa(z.events))
		for i := range z.events / 2 {
			s.do("LOCK", "E", "token"+strconv.Itoa(i), "PX", "100000", "OWNER", "o", "NOTE", "n")
			s.do("UNLOCK", "E", "token"+strconv.Itoa(i))
		}
	case "ends": // of one database again and again, while the locks of another are held
		n := z.events / 10
		s.do("CONFIG", "SET", "lock-history-max-events", strconv.Itoa(2*n))
		for i := range n {
			hold := resp.Args{"SET", "k" + strconv.Itoa(i), "token" + strconv.Itoa(i), "NX", "PX", "100000000"}
			s.send(resp.Request{Cmds: []resp.Cmd{{DB: 1, Args: hold}}})
		}
		for range n {
			s.do("SET", "x", "v")
			s.do("FLUSHDB")
		}
	case "scripts":
		for i := range z.elements / 10 {
			s.do("SCRIPT", "LOAD", "return "+strconv.Itoa(i))
		}
		for i := range min(library.EvalScriptsMax, z.elements/10) {
			s.do("EVAL", "return 'x"+strconv.Itoa(i)+"'", "0")
		}
	case "sources":
		for i := range z.sources {
			s.do("SCRIPT", "LOAD", s.source(i))
		}
	case "libraries":
		for i := range z.libraries {
			s.do("FUNCTION", "LOAD", fmt.Sprintf("#!lua name=lib%d\n%s\nredis.register_function{function_name='f%d', callback=function() end, flags={'no-writes'}}", i, strings.Repeat("local a = {} ", 100), i))
		}
		s.dump = s.do("FUNCTION", "DUMP").Str
	default:
		s.Fatalf("nobody provides %q", need)
	}
}

// args are the arguments of a line; i tells the calls of one request apart.
func (s *worstStage) args(line string, i int) resp.Args {
	var args resp.Args
	for _, word := range strings.Fields(line) {
		before, name, found := strings.Cut(word, "{")
		name, after, _ := strings.Cut(name, "}")
		if !found {
			args = append(args, word)
			continue
		}
		what, of, _ := strings.Cut(name, ":")
		list := func(n int, element func(i int) []string) {
			for j := range n {
				args = append(args, element(j)...)
			}
		}
		one := ""
		switch what {
		case "names":
			list(s.z.names-2, prefixed(of))
			continue
		case "half":
			list(s.z.names/2-2, prefixed(of))
			continue
		case "waited":
			list(s.z.waiterKeys, prefixed(of+strconv.Itoa(i)+"."))
			continue
		case "few":
			list(min(s.z.names, 1000), prefixed(of+strconv.Itoa(i)+"."))
			continue
		case "200":
			list(200, func(int) []string { return []string{of} })
			continue
		case "pairs":
			list(s.z.names/2-3, func(i int) []string { return []string{of + strconv.Itoa(i), "v"} })
			continue
		case "scored":
			list(s.z.names/2-3, func(i int) []string { return []string{strconv.Itoa(i ^ 0x155), of + strconv.Itoa(i)} })
			continue
		case "big":
			one = s.big(-1)
		case "bigmember":
			one = s.big(s.z.bigs / 2)
		case "text":
			one = strings.Repeat("\x00", s.z.text/2)
		case "digits":
			one = strings.Repeat("7", s.z.text/2)
		case "letters":
			one = strings.Repeat("A", s.z.text/2)
		case "nnames":
			one = strconv.Itoa(s.z.names - 2)
		case "npairs":
			one = strconv.Itoa(s.z.names/2 - 3)
		case "n":
			one = strconv.Itoa(s.z.elements + i%2)
		case "draws":
			one = strconv.Itoa(2 * s.z.elements)
		case "most":
			one = strconv.Itoa(s.z.elements - 1)
		case "holder":
			one = tokenOf(7)
		case "unique":
			one = strconv.Itoa(i + 1)
		case "source":
			one = s.source(i)
		case "small":
			one = "return " + strconv.Itoa(-i)
		case "sha":
			one = library.SHA(s.source(i % s.z.sources))
		case "function":
			one = "f" + strconv.Itoa(i%s.z.libraries)
		case "library":
			one = "#!lua name=large\n" + s.source(i) + "\nredis.register_function('large', function() end)"
		case "dump":
			one = s.dump
		case "users":
			var lines strings.Builder
			for j := range s.z.names / 12 {
				lines.WriteString("user u" + strconv.Itoa(j) + " on" + strings.Repeat(" +@string -@hash", 4) + "\n")
			}
			one = lines.String()
		default:
			s.Fatalf("%s: what is {%s}?", line, name)
		}
		args = append(args, before+one+after)
	}
	return args
}

// The bounds of what a client may queue: those of the server, for a transaction.
const (
	worstMultiBytes = 12 << 20
	worstMultiCmds  = 1 << 16
	worstNumber     = 1 << 40 // of a blocking command: none has it
	worstAlone      = "alone"
	worstMulti      = "MULTI"
	worstScript     = "script"
)

// calls are the commands of a line.
func (s *worstStage) calls(line string, i int) (list []resp.Args) {
	for _, one := range strings.Split(line, ";") {
		list = append(list, s.args(one, i))
	}
	return list
}

// request asks for a case alone, again and again in a transaction, or in a script, which
// calls it until a limit stops it.
func (s *worstStage) request(c worstCase, how string) (req resp.Request, ok bool) {
	calls := s.calls(c.line, 0)
	switch args := calls[0]; args[0] {
	case "(ask)":
		return asking(1, worstNumber, 0, args[1:]), how == worstAlone
	case "(close)":
		return resp.BlockClosing([]uint64{1}), how == worstAlone
	case "(tick)": // the time of all is over
		return req, how == worstAlone
	}
	switch how {
	case worstMulti:
		req.Multi, req.Cmds = true, s.repeated(c.line, calls)
		return req, len(req.Cmds) > 1
	case worstScript:
		call, ok := s.script(c.line, calls)
		if !ok {
			return req, false
		}
		calls = []resp.Args{call}
	}
	for _, args := range calls {
		req.Cmds = append(req.Cmds, resp.Cmd{Args: args})
	}
	return req, true
}

// repeated calls commands as often as a transaction may.
func (s *worstStage) repeated(line string, calls []resp.Args) (cmds []resp.Cmd) {
	bytes, most := 0, worstMultiCmds
	if s.z == worstGate {
		most = 3
	}
	for i := 0; len(cmds) < most; i++ {
		if strings.ContainsAny(line, "{") {
			calls = s.calls(line, i)
		}
		for _, args := range calls {
			for _, a := range args {
				bytes += len(a) + 8
			}
			if bytes > worstMultiBytes {
				return cmds
			}
			cmds = append(cmds, resp.Cmd{Args: args})
		}
	}
	return cmds
}

// script is one that calls commands until a limit stops it, if scripts may call them.
func (s *worstStage) script(line string, calls []resp.Args) (eval resp.Args, ok bool) {
	if strings.Contains(line, "{npairs}") || strings.Contains(line, "{nnames}") {
		return nil, false
	}
	loops, body := "1e9", ""
	if s.z == worstGate {
		loops = "3"
	}
	var argv resp.Args
	for _, args := range calls {
		row, fail := command.Find(args)
		if row == nil {
			s.Errorf("%s: %s", line, fail.Str)
			return nil, false
		}
		if row.Flags&(resp.NoScript) != 0 {
			return nil, false
		}
		args = args[:min(len(args), 7000)]
		body += fmt.Sprintf(" redis.pcall(unpack(ARGV, %d, %d))", len(argv)+1, len(argv)+len(args))
		argv = append(argv, args...)
	}
	return append(resp.Args{"EVAL", "for i = 1, " + loops + " do" + body + " end", "0"}, argv...), true
}

// delay runs a case, and gives the time for which every other client waits.
func (c worstCase) delay(t testing.TB, z worstSize, stages map[string]*worstStage, how string) (took time.Duration, work int64, ok bool) {
	s := stages[c.needs]
	if s == nil {
		s = newWorstStage(t, z, c.needs)
	}
	delete(stages, c.needs)
	req, ok := s.request(c, how)
	row, _ := command.Find(s.calls(c.line, 0)[0])
	if row != nil && row.Flags&resp.ReadOnly != 0 || !ok {
		stages[c.needs] = s // it stays as it is
	}
	if !ok {
		return 0, 0, false
	}
	at := resp.Stamp{Tick: 10_000, Wall: 10_000_000, Index: s.index + 1, Seed: 7}
	if z != worstGate {
		runtime.GC()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := cpuTime()
	s.m.Apply(at, []resp.Request{req})
	return cpuTime() - began, s.m.state.Meter.Work(), true
}

// Every command, with the worst that its limits allow, counts for what it takes: in the
// gate, as much as the elements and bytes that it cannot do without; at full size, where
// times are asserted, no other client waits for longer than a second. A new command
// needs a case.
func TestWorstCases(t *testing.T) {
	strict := os.Getenv("LOCKD_STRICT_TIMES") == "1"
	z := worstGate
	if strict {
		z = worstFull
	}
	cases := worstCases(z)
	known := map[string]bool{"(ask)": true, "(close)": true, "(tick)": true} // steps of blocking commands
	for _, spec := range command.Specs() {
		rows := spec.Subs
		if len(rows) == 0 {
			rows = []*resp.Spec{spec}
		}
		for _, row := range rows {
			known[row.Name] = true
			if len(cases[row.Name]) == 0 {
				t.Errorf("%s: a new command needs a worst case in keyspace/worst_test.go: in keyed if only finding its one "+
					"key takes long, in cheap if nothing does, in worstCases otherwise", row.Name)
			}
		}
	}
	stages := map[string]*worstStage{} // that a command which only reads has left
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		if !known[name] {
			t.Errorf("%s: no such command", name)
		}
		t.Run(name, func(t *testing.T) {
			for _, c := range cases[name] {
				c.check(t, z, stages, strict)
			}
		})
	}
}

func (c worstCase) check(t *testing.T, z worstSize, stages map[string]*worstStage, strict bool) {
	const longest = time.Second
	for _, how := range []string{worstAlone, worstMulti, worstScript} {
		took, work, ok := c.delay(t, z, stages, how)
		if !ok {
			continue
		}
		for tries := 1; strict && took > longest && tries < 3; tries++ {
			again, _, _ := c.delay(t, z, stages, how) // the machine may have been busy
			took = min(took, again)
		}
		if strict {
			t.Logf("%5d ms  %6d million  %-6s %s", took.Milliseconds(), work/1e6, how, c.line)
		}
		if strict && took > longest {
			t.Errorf("%s, %s: others wait for %v", c.line, how, took)
		}
		if !strict && work < int64(c.least) { // strictly, some are refused before they begin
			t.Errorf("%s, %s: work %d, want at least %d", c.line, how, work, c.least)
		}
	}
}
