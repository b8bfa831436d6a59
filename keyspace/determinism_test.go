package keyspace

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"lockd/keyspace/library"
	"lockd/resp"
)

// Three machines are fed the same random entries. One lives through all of them;
// one is replaced by its restored image again and again; one also serves reads and
// writes snapshots in between. They give the same replies, messages and images, and count the same work: it decides
// where a request meets its limit.
func TestReplicasAgree(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 7))
		plain, reborn, busy := New(fakeScripts{}), New(fakeScripts{}), New(fakeScripts{})
		stamp := resp.Stamp{Tick: 1000, Wall: 1_700_000_000_000_000}
		for i := range 600 {
			stamp.Tick += int64(rng.IntN(200))
			stamp.Wall += int64(rng.IntN(400_000)) - 100_000
			stamp.Index++
			stamp.Seed = rng.Uint64()
			reqs := anyRequests(rng)
			want, wantMsgs := plain.Apply(stamp, reqs)
			for name, m := range map[string]*Machine{"reborn": reborn, "busy": busy} {
				got, msgs := m.Apply(stamp, reqs)
				if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(msgs, wantMsgs) || m.Digest() != plain.Digest() {
					t.Fatalf("seed %d entry %d, %s:\n%v\n%+v %+v\nwant\n%+v %+v", seed, i, name, reqs, got, msgs, want, wantMsgs)
				}
			}
			if rng.IntN(20) == 0 {
				reborn = restored(t, image(t, reborn))
			}
			if rng.IntN(5) == 0 {
				busy.Snapshot()
				busy.DryRun(stamp, request(0, "SET lock 1 NX"))
				busy.DryRun(stamp, request(0, "LOCK door t1 PX 100"))
				busy.DryRun(stamp, request(0, "LOCK door t1 PX 100 SHARED"))
				busy.DryRun(stamp, request(0, "LOCK pool t1 PX 100 LIMIT 2"))
				busy.View(stamp, request(rng.IntN(3), "LOCKS LIST", "LOCKS INFO door", "LOCKS HISTORY lock", "LOCKS WHY door t1", "LOCKS GRAPH", "RANDOMKEY", "KEYS *", "HRANDFIELD small", "SRANDMEMBER words", "LRANGE queue 0 -1", "LPOS list x RANK -1", "EVAL_RO 'GET lock' 0"))
			}
		}
		want := image(t, plain)
		if !bytes.Equal(image(t, reborn), want) || !bytes.Equal(image(t, busy), want) {
			t.Fatalf("seed %d: images differ", seed)
		}
		checkDerived(t, reborn)
		checkDerived(t, busy)
	}
}

func anyRequests(rng *rand.Rand) []resp.Request {
	reqs := make([]resp.Request, rng.IntN(4))
	for i := range reqs {
		lines := make([]string, 1+rng.IntN(3))
		for j := range lines {
			lines[j] = anyCommand(rng)
		}
		reqs[i] = request(rng.IntN(3), lines...)
		reqs[i].Multi = rng.IntN(2) == 0
	}
	if rng.IntN(2) == 0 {
		reqs = append(reqs, anyBlocking(rng))
	}
	return reqs
}

// anyBlocking is something that a node may say of blocking commands, true or not.
func anyBlocking(rng *rand.Rand) resp.Request {
	id := resp.BlockID{Session: 1 + rng.Uint64N(4), Number: 1 + rng.Uint64N(60)}
	switch rng.IntN(16) {
	case 0, 1:
		return resp.BlockOpening("", 0)
	case 2, 3:
		return keeping(id.Session)
	case 4:
		return cancelling(id.Session, id.Number)
	case 5:
		return resp.BlockClosing([]uint64{1 + rng.Uint64N(30)})
	}
	line := []string{"BLPOP queue list %d", "BRPOP list %d", "BLMOVE queue list LEFT RIGHT %d", "BRPOPLPUSH list queue %d", "BLMPOP %d 2 list queue LEFT COUNT 2",
		"BZPOPMIN ranks %d", "BZPOPMAX ranks %d", "BZMPOP %d 1 ranks MAX COUNT 3",
		"XREAD BLOCK %d STREAMS stream2 stream $ $", "XREAD COUNT 2 BLOCK %d STREAMS stream stream 0 $",
		"LOCK lock t%[1]d PX 700 WAIT %[1]d000", "LOCK door t%[1]d PX 300 WAIT 900", "LOCK door t%[1]d PX 300 WAIT 2000", "LOCK door t%[1]d PX 900 WAIT %[1]d00 SHARED", "LOCK door s%[1]d PX 400 WAIT 900 SHARED OWNER o%[1]d",
		"LOCK door t%[1]d PX 300 WAIT 700 LIMIT 2 NOTE n", "LOCK pool t%[1]d PX 500 WAIT 700 LIMIT 2", "LOCK pool s%[1]d PX 300 WAIT 300"}[rng.IntN(18)]
	id.Session += rng.Uint64N(8)
	return resp.BlockAsking(id, rng.Int64N(500), resp.Cmd{DB: rng.IntN(3), Args: split(fmt.Sprintf(line, rng.IntN(4)))})
}

func anyCommand(rng *rand.Rand) string {
	n := rng.IntN(6)
	switch rng.IntN(20) {
	case 19:
		return strings.ReplaceAll([]string{"EVAL 'HINCRBY rlock T 1\nPEXPIRE rlock 300' 0", "EVAL 'HINCRBY rlock T 1\nPEXPIRE rlock 300' 0",
			"EVAL 'HSET rlock mode read\nHINCRBY rlock T 1\nPEXPIRE rlock 300' 0", "EVAL 'HDEL rlock T' 0", "EVAL 'HINCRBY rlock T -1\nDEL rlock' 0",
			"EVAL 'HDEL rlock T\nHINCRBY rlock T 1\nlimit' 0", "DEL rlock", "PERSIST rlock", "HDEL rlock T", "RENAME rlock rlock2", "COPY rlock2 rlock"}[rng.IntN(11)],
			"T", tokenOf(rng.IntN(3)))
	case 17:
		return []string{"LOCKS LIST WAITED", "LOCKS LIST", "LOCKS INFO lock", "LOCKS INFO door", "LOCKS HISTORY lock", "LOCKS HISTORY door COUNT 3",
			"LOCKS WHY lock a", "LOCKS WHY door t1", "LOCKS HISTORY pool FROM -1s",
			"LOCKS FORCE lock REASON why", "LOCKS FORCE door TOKEN t1 REASON why", "LOCKS FORCE pool REASON why",
			"LOCKS FORCE rlock REASON why", "LOCKS FORCE rlock TOKEN " + tokenOf(1) + " REASON why", "LOCKS INFO rlock", "LOCKS GRAPH"}[rng.IntN(16)]
	case 18:
		return fmt.Sprintf("CONFIG SET lock-history-max-events %d lock-pattern %s", n*n*n, []string{"*", "*", "*", "lo*"}[rng.IntN(4)])
	case 0:
		return fmt.Sprintf("EVAL '%s\n%s' 0", randomWrite(rng), randomWrite(rng))
	case 1:
		return fmt.Sprintf("EVAL '%s\n%s\nlimit' 0", randomWrite(rng), randomWrite(rng))
	case 2:
		return fmt.Sprintf("CONFIG SET notify-keyspace-events %s", []string{"KEA", "KEAn", "''", "Ex"}[rng.IntN(4)])
	case 3:
		return fmt.Sprintf("CONFIG SET hash-max-listpack-entries %[1]d set-max-intset-entries %[1]d set-max-listpack-entries %[1]d zset-max-listpack-entries %[1]d maxmemory %[2]d", n, 2000+n*1000)
	case 4:
		return []string{"RANDOMKEY", "KEYS *", "SCAN 0", "DBSIZE", "HRANDFIELD small 3", "HGETALL large", "FENCE lock", "PTTL lock", "TIME",
			"SRANDMEMBER words 3", "SMEMBERS members", "SUNION numbers words members", "SINTER words members", "SDIFF members words"}[rng.IntN(14)]
	case 5:
		return fmt.Sprintf("EVALSHA %s 0", library.SHA(fmt.Sprintf("return %d", n)))
	case 6:
		return fmt.Sprintf("SCRIPT LOAD 'return %d'", n)
	case 8, 9:
		return anyFunction(rng)
	case 7:
		return fmt.Sprintf("PEXPIREAT lock %d", 1_700_000_000_000+int64(n)*10_000)
	}
	return randomWrite(rng)
}

// anyFunction loads one of a few libraries, calls one of their functions, or asks about them.
func anyFunction(rng *rand.Rand) string {
	n := rng.IntN(4)
	switch rng.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("FUNCTION LOAD REPLACE '#!lua name=lib%[1]d\n%[2]sfunction f%[1]d\n%[3]s\nfunction F%[4]d no-writes\nGET lock'",
			n, []string{"", "", "limit\n"}[rng.IntN(3)], randomWrite(rng), 4+rng.IntN(4))
	case 2:
		return fmt.Sprintf("FUNCTION DELETE lib%d", n)
	case 3:
		return fmt.Sprintf("FCALL_RO f%d 0", n+4)
	case 4:
		return []string{"FUNCTION DUMP", "FUNCTION LIST WITHCODE", "FUNCTION STATS", "FUNCTION FLUSH"}[n]
	}
	return fmt.Sprintf("FCALL f%d 0", n)
}
