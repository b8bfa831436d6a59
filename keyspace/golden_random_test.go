//go:build golden

package keyspace

import (
	"math/rand/v2"
	"strings"
	"testing"

	"lockd/resp"
)

// randomCommands are the shapes that TestGoldenRandom fills in: $k a key, $v a
// value, $i an integer or none, $f a float or none, $n a field, $m a member, $t a
// time, $u a time or none, neither of them over before its row is: the real server's
// clock runs; $s a pattern; $z the key of a sorted set, $o a score, $e an end of a range of
// scores, $l of members; $x the key of a stream, $j an id or a number; [x|y|] one of
// them or nothing.
var randomCommands = strings.Split(strings.TrimSpace(`
GET $k
SET $k $v
SET $k $v [NX|XX|] [GET|] [EX $t|PX $t000|KEEPTTL|EX $u|]
SET $k $v [EX $t|GET|NX|XX|KEEPTTL] [EX $t|GET|NX|XX|KEEPTTL] [EX $t|GET|NX|XX|KEEPTTL]
GETEX $k [EX $t|PX $t000|PERSIST|EX $u|KEEPTTL|]
GETSET $k $v
GETDEL $k
SETNX $k $v
SETEX $k $t $v
MSET $k $v $k $v
MSETNX $k $v $k $v
MGET $k $k
APPEND $k $v
STRLEN $k
GETRANGE $k $i $i
SETRANGE $k [0|1|5|20|$i] $v
INCR $k
DECR $k
INCRBY $k $i
DECRBY $k $i
INCRBYFLOAT $k $f
HSET $k $n $v $n $v
HSET $k $n $f
HSETNX $k $n $v
HGET $k $n
HMGET $k $n $n
HGETALL $k
HKEYS $k
HVALS $k
HDEL $k $n $n
HEXISTS $k $n
HLEN $k
HSTRLEN $k $n
HINCRBY $k $n $i
HINCRBYFLOAT $k $n $f
HSCAN $k 0 MATCH $s
SADD $k $m
SADD $k $m $m $m
SADD $k $m $m $m
SREM $k $m $m
SISMEMBER $k $m
SMISMEMBER $k $m $m
SMEMBERS $k
SCARD $k
SPOP $k [0|1000|-1|$i000]
SRANDMEMBER $k [0|1000|abc]
SMOVE $k $k $m
SINTER $k $k [$k|]
SINTERCARD [1|2|3|0|$i] $k $k [$k|LIMIT $i|]
SUNION $k $k [$k|]
SDIFF $k $k [$k|]
SINTERSTORE $k $k $k
SUNIONSTORE $k $k $k
SDIFFSTORE $k $k $k
SSCAN $k 0 COUNT 100 MATCH $s
LPUSH $k $v $v
RPUSH $k $v $v $v
RPUSH l $v $v $v
LPUSHX $k $v
RPUSHX l $v $v
LPOP $k [0|1|2|$i|]
RPOP l [0|1|2|$i|]
LLEN $k
LRANGE $k $i $i
LRANGE l [0|1|-5] [-1|5|2]
LINDEX $k $i
LSET l $i $v
LSET $k [0|1|-1|-2] $v
LINSERT l [BEFORE|AFTER|UP] $v $v
LINSERT $k [BEFORE|AFTER] $v $v
LREM l $i $v
LREM $k [0|1|-1|2|-2] $v
LTRIM $k $i $i
LTRIM l [0|1|-20] [-1|-2|15]
LPOS l $v [RANK 1|RANK 2|RANK -3|RANK 0|COUNT $i|MAXLEN $i|RANK -1 COUNT 2|RANK 2 COUNT 0|RANK -2 MAXLEN 5|]
LPOS $k $v [RANK 2|RANK -1|RANK abc|] [COUNT $i|] [MAXLEN $i|]
LMOVE [l|$k] [l|$k] [LEFT|RIGHT] [LEFT|RIGHT]
RPOPLPUSH [l|$k] [l|$k]
LMPOP 2 $k l [LEFT|RIGHT] [COUNT 2|COUNT $i|]
ZADD $z $o $n $o $n
ZADD $z [NX|XX|] [GT|LT|] [CH|] [INCR|] $o $n
ZADD $z $o $m $o $m $o $m
ZINCRBY $z $o $n
ZREM $z $n $m
ZCARD $z
ZSCORE $z $n
ZMSCORE $z $n $m
ZRANK $z $n
ZREVRANK $z $m
ZCOUNT $z $e $e
ZRANGE $z $i $i [REV|] [WITHSCORES|]
ZRANGE $z $e $e BYSCORE [REV|] [LIMIT $i $i|] [WITHSCORES|]
ZREVRANGE $z $i $i [WITHSCORES|]
ZRANGEBYSCORE $z $e $e [WITHSCORES|] [LIMIT $i $i|]
ZREVRANGEBYSCORE $z $e $e [WITHSCORES|] [LIMIT $i $i|]
ZRANGESTORE $z $z $i $i [REV|]
ZRANGESTORE $z $z $e $e BYSCORE [REV|] [LIMIT $i $i|]
ZREMRANGEBYRANK $z $i $i
ZREMRANGEBYSCORE $z $e $e
ZPOPMIN $z [$i|]
ZPOPMAX $z [$i|]
ZMPOP 2 $z $z [MIN|MAX] [COUNT $i|]
Z[UNION|INTER|DIFF] [1|2|3] $z $z $z [WITHSCORES|]
Z[UNION|INTER] 2 $z $z WEIGHTS $o $o [AGGREGATE SUM|AGGREGATE MIN|AGGREGATE MAX|] WITHSCORES
Z[UNION|INTER|DIFF] 2 $z $k WITHSCORES
ZINTERCARD 2 $z $z [LIMIT $i|]
Z[UNION|INTER]STORE $z 2 $z $z WEIGHTS $o $o [AGGREGATE SUM|AGGREGATE MIN|AGGREGATE MAX|]
Z[UNION|INTER|DIFF]STORE $z 3 $z $z $z
Z[UNION|INTER|DIFF]STORE $z 2 $z $k
ZADD lex 0 $m 0 $n
ZRANGEBYLEX lex $l $l [LIMIT $i $i|]
ZREVRANGEBYLEX lex $l $l [LIMIT $i $i|]
ZLEXCOUNT lex $l $l
ZREMRANGEBYLEX lex $l $l
CONFIG SET zset-max-listpack-entries [0|2|5|128]
OBJECT ENCODING [y|z]
XADD $x [5-*|$j|$j|$j] $n $v
XADD $x [NOMKSTREAM|] [MAXLEN|MINID] [=|~|] $j [LIMIT $i|] $j $n $v $n $v
XADD $x MAXLEN [3|5|20] $j $n $v
XTRIM $x [MAXLEN|MINID] [=|] $j
XLEN $x
XRANGE $x [-|$j|($j] [+|$j|($j] [COUNT $i|]
XREVRANGE $x [+|$j|($j] [-|$j|($j] [COUNT $i|]
XDEL $x $j $j $j
XINFO STREAM $x [FULL|]
DEL $k $k
DEL l
DEL x
UNLINK $k
EXISTS $k $k
TYPE $k
TOUCH $k $k
RENAME $k $k
RENAMENX $k $k
COPY $k $k [REPLACE|DB 0|DB 1|]
EXPIRE $k $t [NX|XX|]
PEXPIRE $k [$t000|-1|abc|9223372036854775807|-9223372036854775808] [NX|XX|]
PERSIST $k
TTL $k
PTTL $k
EXPIRETIME nokey
DBSIZE
`), "\n")

// randomWords are what the slots are filled with.
var randomWords = map[byte][]string{
	'k': {"a", "b", "c", "d"},
	'v': {"", "x", "hello world", "10", "-1", "9223372036854775807", "1.5", "0.1", " 1", "\x00\xff\r\n", "1e3"},
	'i': {"0", "1", "-1", "3", "-3", "100", "9223372036854775807", "-9223372036854775808", "abc", "1.5", "007", ""},
	'f': {"0.1", "0.2", "-0.7", "3", "1e3", "1e-7", "123456789.123456789", "abc", "1e20", "5e-324", "inf", "0x1p3", ""},
	'n': {"f", "g", "h", "\x00"},
	'm': {"a", "b", "f", "1", "2", "-3", "007", "9223372036854775807", "9223372036854775808", "", "\x00"},
	't': {"100", "200", "5000"},
	'u': {"0", "100", "-1", "-3", "300", "9223372036854775807", "-9223372036854775808", "abc", "1.5", "007", ""},
	'z': {"y", "z", "a"},
	'o': {"0", "1", "2", "3", "-1", "2.5", "0.1", "0.2", "1e3", "inf", "-inf", "abc", "nan", "123456789.123456789", "1e17", "1e-7", ""},
	'x': {"x", "x", "w", "a"},
	'j': {"1", "2", "3", "3-1", "3-*", "4", "5", "5-5", "6", "7-0", "8", "9", "10-10", "0-0", "0-1", "abc", "-", ""},
	'e': {"0", "(1", "1", "(2", "3", "-1", "-inf", "+inf", "(0.1", "(-inf", "inf", "x", "(", ""},
	'l': {"-", "+", "[f", "(f", "[h", "(k", "[", "[hello", "(zz", "x", ""},
	's': {"*", "f*", "?", "[f-g]", "[^f]", "\\f", "x"},
}

// TestGoldenRandom proves that the machine and Redis agree on long rows of random
// commands, in their answers and in what they publish. A row is known by its seed.
func TestGoldenRandom(t *testing.T) {
	for seed := range uint64(20) {
		g := newGolden(t, "random", 3)
		g.random(rand.New(rand.NewPCG(seed, 0)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (g *golden) random(r *rand.Rand) {
	g.step(block{}, step{words: resp.Args{"CONFIG", "SET", "notify-keyspace-events", "KEA"}})
	for range 1000 {
		args := randomCommand(r)
		b := block{notes: map[string]string{}}
		if strings.HasSuffix(args[0], "TTL") {
			b.notes["approx"] = "the real server's clock runs"
		}
		if strings.HasPrefix(args[0], "S") {
			b.notes["sorted"] = "the members of a set have no order"
		}
		if strings.HasPrefix(args[0], "Z") {
			b.notes["digits"] = "Redis 7.0 writes 17"
		}
		if !g.step(b, step{words: args}) || !g.step(b, step{words: resp.Args{"events"}}) {
			return
		}
	}
}

// randomCommand fills in one of the shapes.
func randomCommand(r *rand.Rand) (args resp.Args) {
	shape := randomCommands[r.IntN(len(randomCommands))]
	for strings.Contains(shape, "[") {
		before, rest, _ := strings.Cut(shape, "[")
		choice, after, _ := strings.Cut(rest, "]")
		ways := strings.Split(choice, "|")
		shape = before + ways[r.IntN(len(ways))] + after
	}
	for _, w := range strings.Fields(shape) {
		if w[0] == '$' {
			words := randomWords[w[1]]
			w = words[r.IntN(len(words))] + w[2:]
		}
		args = append(args, w)
	}
	return args
}
