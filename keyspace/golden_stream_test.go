//go:build golden

package keyspace

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"lockd/resp"
)

// TestGoldenRandomNodes proves that ~ trims streams as Redis does, which cuts them into nodes by entries and by bytes:
// whatever the entries are like, and whatever the limits.
func TestGoldenRandomNodes(t *testing.T) {
	for seed := range uint64(30) {
		g := newGolden(t, "random nodes", 3)
		g.randomNodes(rand.New(rand.NewPCG(seed, 1)))
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func (g *golden) randomNodes(r *rand.Rand) {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	same := func(args ...string) bool { return g.step(block{}, step{words: resp.Args(args)}) }
	defer g.must("CONFIG SET stream-node-max-entries 100 stream-node-max-bytes 4096")
	same("CONFIG", "SET", "stream-node-max-entries", pick("100", "100", "0", "1", "7", "130", "5000"),
		"stream-node-max-bytes", pick("4096", "4096", "0", "1", "100", "1000", "60000"))
	kind, ms, seq := r.IntN(4), uint64(r.IntN(1000)), uint64(0)
	text := func() string {
		switch r.IntN(8) {
		case 0:
			return strconv.FormatInt(int64(r.Uint64())>>r.IntN(64), 10)
		case 1:
			return "0" + strconv.Itoa(r.IntN(10))
		case 2:
			return strings.Repeat("v", r.IntN(5000))
		case 3:
			return strings.Repeat("v", 60+r.IntN(80))
		}
		return strings.Repeat("v", r.IntN(20))
	}
	for range 400 {
		switch r.IntN(4) {
		case 0:
			ms, seq = ms+1+r.Uint64()>>(24+r.IntN(40)), 0
		case 1:
			ms, seq = ms+1, uint64(r.IntN(3))
		default:
			seq += 1 + uint64(r.IntN(1+100*r.IntN(100)))
		}
		args := []string{"XADD", "x"}
		switch r.IntN(4) {
		case 0:
			args = append(args, "MAXLEN", "~", strconv.Itoa(r.IntN(150)))
		case 1:
			args = append(args, "MINID", "~", fmt.Sprint(ms-min(ms, r.Uint64()>>(20+r.IntN(44)))))
		}
		if len(args) > 2 && r.IntN(3) == 0 {
			args = append(args, "LIMIT", strconv.Itoa(r.IntN(200)))
		}
		args = append(args, fmt.Sprintf("%d-%d", ms, seq))
		for i := range 1 + r.IntN(3)*(kind%2) {
			name := fmt.Sprint("f", i)
			if kind >= 2 && r.IntN(5) == 0 {
				name = text()
			}
			args = append(args, name, text())
		}
		if !same(args...) || !same("XLEN", "x") {
			return
		}
		if r.IntN(20) == 0 && (!same("XTRIM", "x", "MAXLEN", "~", strconv.Itoa(r.IntN(100))) || !same("XLEN", "x")) {
			return
		}
	}
}
