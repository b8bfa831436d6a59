package keyspace

import (
	"fmt"
	"testing"

	"github.com/zeebo/xxh3"
)

// Digests that Redis 8.4 has given, as its documentation, its tests and reports about it show.
func TestXXH3AsRedisHasIt(t *testing.T) {
	for s, want := range map[string]string{
		"":                  "2d06800538d394c2",
		"v8":                "0cc76dbb41381419",
		"123":               "404a763b3f4c8c9a",
		"foo":               "ab6e5f64077e7d8a",
		"test":              "9ec9f7918d7dfc40",
		"hello":             "9555e8555c62dcfd",
		"Hello world":       "b6acb9d84a38ff74",
		"Hello, Dragonfly!": "063b4909128e92b7",
		"v8lf0c11xh8ymlqztfd3eeq16kfn4sspw7fqmnuuq3k3t75em5wdizgcdw7uc26nnf961u2jkfzkjytls2kwlj7626sd": "00006c38adf31777",
	} {
		if got := fmt.Sprintf("%016x", xxh3.HashString(s)); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

// The library takes another way for each length up to 240 bytes, and on each kind of
// processor: the sums over a pattern are the same on all, as the state must be.
func TestXXH3OfEveryLength(t *testing.T) {
	pattern := make([]byte, 5000)
	for i := range pattern {
		pattern[i] = byte(i*i>>3 ^ i)
	}
	for _, want := range []struct {
		from, to int
		sum      uint64
	}{
		{0, 17, 0xc56a5f133972f4e},
		{17, 129, 0xa803c404429a55b1},
		{129, 241, 0x1b518a68e68c9a18},
		{241, 1025, 0x76bf96115aef22b9},
		{1025, 5001, 0x6a1f54009df87684},
	} {
		sum := uint64(0)
		for n := want.from; n < want.to; n++ {
			sum = sum*31 + xxh3.HashString(string(pattern[:n]))
		}
		if sum != want.sum {
			t.Errorf("lengths %d to %d: %#x, want %#x", want.from, want.to-1, sum, want.sum)
		}
	}
}
