package keyspace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockd/keyspace/meter"
	"lockd/keyspace/value"
	"lockd/resp"
)

// zsetModel is a sorted set as simple as it can be: a list that is sorted again after
// every change, and searched from its beginning.
type zsetModel []value.Scored

func (z zsetModel) index(member string) int {
	return slices.IndexFunc(z, func(m value.Scored) bool { return m.Member == member })
}

func (z *zsetModel) set(member string, score float64) {
	if i := z.index(member); i >= 0 {
		(*z)[i].Score = score
	} else {
		*z = append(*z, value.Scored{Score: score, Member: member})
	}
	slices.SortFunc(*z, func(a, b value.Scored) int {
		if a.Score != b.Score {
			return int(math.Copysign(1, a.Score-b.Score))
		}
		return strings.Compare(a.Member, b.Member)
	})
}

// cut takes out the members that are in and returns them.
func (z *zsetModel) cut(in func(rank int, m value.Scored) bool) (taken zsetModel) {
	var kept zsetModel
	for i, m := range *z {
		if in(i, m) {
			taken = append(taken, m)
		} else {
			kept = append(kept, m)
		}
	}
	*z = kept
	return taken
}

func (z zsetModel) reversed() zsetModel {
	z = slices.Clone(z)
	slices.Reverse(z)
	return z
}

// limit is LIMIT with an offset and a count that are not negative.
func (z zsetModel) limit(offset, count int) zsetModel {
	z = z[min(offset, len(z)):]
	return z[:min(count, len(z))]
}

// text is the list as plain shows a reply with scores.
func (z zsetModel) text() string {
	var words []string
	for _, m := range z {
		words = append(words, m.Member, strconv.FormatFloat(m.Score, 'f', -1, 64))
	}
	return strings.Join(words, " ")
}

// step is one random command, and what it must answer.
func (z *zsetModel) step(rng *rand.Rand, members int) (cmd, want string) {
	member := fmt.Sprintf("m%d", rng.IntN(members))
	score := float64(rng.IntN(40)-20) / 4
	low, high := float64(rng.IntN(44)-22)/4, float64(rng.IntN(44)-22)/4
	first, last := rng.IntN(len(*z)+2), rng.IntN(len(*z)+2)
	openLow, openHigh := rng.IntN(2) == 0, rng.IntN(2) == 0
	within := func(_ int, m value.Scored) bool {
		return (m.Score > low || !openLow && m.Score == low) && (m.Score < high || !openHigh && m.Score == high)
	}
	all := slices.Clone(*z)
	switch rng.IntN(14) {
	case 0, 1, 2, 3:
		had := z.index(member) >= 0
		z.set(member, score)
		return fmt.Sprintf("ZADD z %v %s", score, member), boolWord(!had)
	case 4:
		if i := z.index(member); i >= 0 {
			score += all[i].Score
		}
		z.set(member, score)
		by := score
		if i := all.index(member); i >= 0 {
			by -= all[i].Score
		}
		return fmt.Sprintf("ZINCRBY z %v %s", by, member), strconv.FormatFloat(score, 'f', -1, 64)
	case 5:
		return "ZREM z " + member, strconv.Itoa(len(z.cut(func(_ int, m value.Scored) bool { return m.Member == member })))
	case 6:
		n := rng.IntN(3)
		return fmt.Sprintf("ZPOPMIN z %d", n), z.cut(func(rank int, _ value.Scored) bool { return rank < n }).text()
	case 7:
		n := rng.IntN(3)
		return fmt.Sprintf("ZPOPMAX z %d", n), z.cut(func(rank int, _ value.Scored) bool { return rank >= len(all)-n }).reversed().text()
	case 8:
		last = min(last, first+2)
		return fmt.Sprintf("ZREMRANGEBYRANK z %d %d", first, last), strconv.Itoa(len(z.cut(func(rank int, _ value.Scored) bool { return first <= rank && rank <= last })))
	case 9:
		high = min(high, low+0.25)
		return "ZREMRANGEBYSCORE z " + endText(low, openLow) + " " + endText(high, openHigh), strconv.Itoa(len(z.cut(within)))
	case 10:
		return "ZRANGE z " + endText(low, openLow) + " " + endText(high, openHigh) + fmt.Sprintf(" BYSCORE LIMIT %d %d WITHSCORES", first, last),
			all.cut(within).limit(first, last).text()
	case 11:
		return "ZREVRANGEBYSCORE z " + endText(high, openHigh) + " " + endText(low, openLow) + fmt.Sprintf(" WITHSCORES LIMIT %d %d", first, last),
			all.cut(within).reversed().limit(first, last).text()
	case 12:
		return "ZCOUNT z " + endText(low, openLow) + " " + endText(high, openHigh), strconv.Itoa(len(all.cut(within)))
	}
	if i := z.index(member); i >= 0 {
		return "ZRANK z " + member + " WITHSCORE", fmt.Sprintf("%d %v", i, all[i].Score)
	}
	return "ZRANK z " + member + " WITHSCORE", "(nil)"
}

// endText is the end of a range of scores.
func endText(f float64, open bool) string {
	if open {
		return fmt.Sprintf("(%v", f)
	}
	return fmt.Sprint(f)
}

// Random commands give the answers of a list that is sorted and searched by hand, in
// both forms, also after snapshots and through images.
func TestZsetModel(t *testing.T) {
	for _, tt := range []struct{ members, limit, seeds, steps int }{
		{8, 128, 20, 300}, {8, 3, 20, 300}, {300, 128, 5, 1000}, {20000, 0, 1, 12000},
	} {
		for seed := range uint64(tt.seeds) {
			rng := rand.New(rand.NewPCG(seed, uint64(tt.members)))
			m, z := New(nil), &zsetModel{}
			do(m, 1, fmt.Sprintf("CONFIG SET zset-max-listpack-entries %d", tt.limit))
			for range tt.members / 8 {
				member, score := fmt.Sprintf("m%d", rng.IntN(tt.members)), float64(rng.IntN(40)-20)/4
				z.set(member, score)
				do(m, 1, fmt.Sprintf("ZADD z %v %s", score, member))
			}
			for i := range tt.steps {
				cmd, want := z.step(rng, tt.members)
				if got := do(m, 1, cmd); got != want {
					t.Fatalf("members %d, seed %d, step %d, %s: %q, want %q", tt.members, seed, i, cmd, got, want)
				}
				switch rng.IntN(100) {
				case 0:
					m = restored(t, image(t, m))
				case 1:
					m.Snapshot()
				}
			}
			if got := do(m, 1, "ZRANGE z 0 -1 WITHSCORES"); got != z.text() {
				t.Errorf("members %d, seed %d: %q, want %q", tt.members, seed, got, z.text())
			}
			checkDerived(t, m)
			checkZset(t, m)
		}
	}
}

// randomZsetWrite draws a command that may change a sorted set.
func randomZsetWrite(rng *rand.Rand, key string) string {
	key = []string{"ranks", "ranks2", "ranks2", key}[rng.IntN(4)]
	n := rng.IntN(5)
	switch rng.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("ZADD %s %d m%d 0.1 m%d", key, n, n, n/2)
	case 2:
		return fmt.Sprintf("ZADD %s GT CH %d m%d 1 %s", key, n, n, strings.Repeat("v", n*20))
	case 3:
		return fmt.Sprintf("ZINCRBY %s 0.2 m%d", key, n)
	case 4:
		return fmt.Sprintf("ZPOPMIN %s %d", key, n)
	case 5:
		return fmt.Sprintf("ZREMRANGEBYRANK %s %d -1", key, n)
	case 6:
		return fmt.Sprintf("ZRANGESTORE %s ranks 0 %d REV", key, n)
	}
	return fmt.Sprintf("ZUNIONSTORE %s 3 %s ranks members WEIGHTS 0.1 %d 0.3", key, key, n)
}

// checkZset compares what a large sorted set keeps twice.
func checkZset(t *testing.T, m *Machine) {
	t.Helper()
	e, _ := m.state.Keys.DBs[0].Keys.Get("z")
	if e == nil {
		return
	}
	z := e.Aggregate().(*value.Zset)
	size := value.NewZset(0).Size()
	for _, m := range z.Members(0, z.Len()) {
		size += value.ScoredOverheadBytes + int64(len(m.Member))
		if score, had := z.Get(m.Member); !had || score != m.Score {
			t.Errorf("%q is at %v in the order, at %v by name", m.Member, m.Score, score)
		}
	}
	byName := 0
	z.Scan(0, z.Len(), func(string, float64) { byName++ })
	if size != z.Size() || byName != z.Len() {
		t.Errorf("%d members of %d bytes: %d by name, %d bytes", z.Len(), size, byName, z.Size())
	}
}

// The answer of ZADD INCR has what is written, also where numbers round.
func TestScoresRoundOnce(t *testing.T) {
	m := New(nil)
	for _, tt := range []struct{ by, want string }{
		{"0.1", "0.1"}, {"0.2", "0.30000000000000004"}, {"1e16", "10000000000000000"}, {"-1e16", "0"},
	} {
		if got := do(m, 1, "ZINCRBY z "+tt.by+" a"); got != tt.want || do(m, 1, "ZSCORE z a") != tt.want {
			t.Errorf("after %s: %s, want %s", tt.by, got, tt.want)
		}
	}
}

// A ZADD that changes nothing is no modification: what is watched has not changed.
func TestZaddWithoutChange(t *testing.T) {
	m := New(nil)
	do(m, 1, "ZADD z 1 a 2 b")
	version := m.state.Version(0, "z")
	for _, line := range []string{
		"ZADD z 1 a 2 b", "ZADD z NX 5 a", "ZADD z XX 5 c", "ZADD z GT 0 a", "ZADD z LT 3 b", "ZINCRBY z 0 a", "ZADD z INCR GT -1 a",
		"ZREM z c", "ZPOPMIN z 0", "ZREMRANGEBYSCORE z 5 6", "ZADD z x a",
	} {
		if do(m, 1, line); m.state.Version(0, "z") != version {
			t.Errorf("%s is a modification", line)
		}
	}
	if do(m, 1, "ZADD z 1 a 3 b"); m.state.Version(0, "z") == version {
		t.Error("a change of the last member is none")
	}
}

// hugeZset stores a sorted set of n members of so many bytes, which share their memory.
func hugeZset(m *Machine, key string, n, bytes int) {
	text := strings.Repeat("x", n) + "y" + strings.Repeat("x", bytes)
	z := value.NewZset(m.state.Keys.Generation)
	z.Limit(m.state.Settings.Zsets)
	for i := range n {
		z.Add(value.Scored{Score: float64(i), Member: text[i : i+bytes]})
	}
	keep(m, key, z)
}

// A command that would answer, store or do more than one request may is refused, and
// has changed nothing.
func TestZsetCommandsAreBounded(t *testing.T) {
	m := New(nil)
	const mib, little = 1 << 20, 50 // less than what a member costs beside its bytes
	hugeZset(m, "huge", meter.ReplyBytesMax/mib, mib)
	hugeZset(m, "giant", meter.GrowthBytesMax/mib, mib)
	hugeZset(m, "huger", meter.ReplyBytesMax/mib, mib-little)
	hugeZset(m, "gianter", meter.GrowthBytesMax/mib, mib-little)
	do(m, 1, "ZADD a 1 x 2 y 3 z")
	do(m, 1, "ZADD b 1 y 2 z 3 w")
	mustRefuse(t, m, []refusal{
		{"ZRANGE huge 0 -1", 0, meter.ErrReplyTooLarge},
		{"ZPOPMIN huge 1000", 0, meter.ErrReplyTooLarge},
		{"ZPOPMAX huge 1000", 0, meter.ErrReplyTooLarge},
		{"ZMPOP 1 huge MIN COUNT 1000", 0, meter.ErrReplyTooLarge},
		{"ZRANDMEMBER huge -1000", 0, meter.ErrReplyTooLarge},
		{"ZUNION 2 huge a", 0, meter.ErrReplyTooLarge},
		{"ZINTER 2 huge huge WITHSCORES", 0, meter.ErrReplyTooLarge},
		{"ZDIFF 2 huge a", 0, meter.ErrReplyTooLarge},
		{"ZINTERCARD 2 huge huge", 0, "64"},
		{"ZPOPMIN huger 1000", 0, meter.ErrReplyTooLarge},
		{"ZUNION 1 huger WITHSCORES", 0, meter.ErrReplyTooLarge},
		{"ZUNIONSTORE c 1 gianter", 0, meter.ErrGrowth},
		{"ZRANGESTORE c gianter 0 -1", 0, meter.ErrGrowth},
		{"ZUNIONSTORE c 2 giant a", 0, meter.ErrGrowth},
		{"ZRANGESTORE c giant 0 -1", 0, meter.ErrGrowth},
		{"ZUNION 2 a b", meter.WorkMax, meter.ErrWork},
		{"ZINTER 2 a b", meter.WorkMax, meter.ErrWork},
		{"ZDIFF 2 a b", meter.WorkMax, meter.ErrWork},
		{"ZINTERCARD 2 a b", meter.WorkMax, meter.ErrWork},
		{"ZUNIONSTORE c 2 a b", meter.WorkMax, meter.ErrWork},
		{"ZINTERSTORE c 2 a b", meter.WorkMax, meter.ErrWork},
		{"ZDIFFSTORE c 2 a b", meter.WorkMax, meter.ErrWork},
	})
	for _, line := range []string{"ZUNION 1 huger", "ZPOPMAX huge 63"} {
		if got := ask(m, split(line))[0]; got.IsErr() || len(got.Elems) < 63 {
			t.Errorf("%s, as much as one may: %.100s", line, plain(got))
		}
	}
}

// What a command on many members costs is counted before the next command runs.
func TestZsetWorkIsCounted(t *testing.T) {
	m := New(nil)
	for i := range 1000 {
		do(m, 1, fmt.Sprintf("ZADD z %d m%d", i, i))
	}
	for _, tt := range []struct {
		line  string
		least int64
	}{
		{"ZUNION 2 z z", 2000 * value.FindWork},
		{"ZINTERCARD 2 z z", 1000 * (value.FindWork + value.VisitWork)},
		{"ZINTERSTORE c 2 z z", 2000 * value.FindWork},
		{"ZDIFF 2 z missing", 1000 * value.VisitWork},
		{"ZDIFF 2 z c", 1000 * value.FindWork},
		{"ZRANGESTORE c z 0 -1", 1000 * value.FindWork},
		{"ZRANDMEMBER z -1000", 1000 * value.FindWork},
		{"ZSCAN z 0 COUNT 100000", 1000 * value.VisitWork},
		{"ZADD z 0 a 0 b 0 c", 3 * value.FindWork},
		{"ZREM z a b c", 3 * value.FindWork},
		{"ZMSCORE z a b c", 3 * value.FindWork},
		{"ZREMRANGEBYRANK z 0 99", 100 * value.FindWork},
		{"ZPOPMIN z 500", 500 * value.FindWork},
	} {
		m.state.Applying = true
		m.state.Meter.BeginRequest(m.state.UsedBytes())
		if r := run(m, resp.Stamp{}, 0, split(tt.line)); r.IsErr() || m.state.Meter.Work() < tt.least {
			t.Errorf("%s: %.60s, %d of work, want at least %d", tt.line, plain(r), m.state.Meter.Work(), tt.least)
		}
	}
}
