package arg

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A time is written as Go writes it, and read back.
func TestTimesAreThoseOfGo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		ms := rng.Int64N(200_000_000_000_000) - 60_000_000_000_000 // the years 69 to 6406
		if i < 800 {
			ms = int64(i-400) * dayMs
		}
		want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
		got := FormatTime(ms)
		if back, err := ParseTime(got, 0); got != want || back != ms || err != nil {
			t.Fatalf("%d: %s, want %s; read back as %d, %v", ms, got, want, back, err)
		}
	}
	if got := FormatTime(-1 << 63); got == "" {
		t.Error("no time at all")
	}
}

func TestParseTime(t *testing.T) {
	now, _ := ParseTime("2026-11-22T14:03:07.212Z", 0)
	for word, want := range map[string]string{
		"14:03": "2026-11-22T14:03:00.000Z", "14:03:07": "2026-11-22T14:03:07.000Z", "14:03:07.2": "2026-11-22T14:03:07.200Z",
		"14:04": "2026-11-21T14:04:00.000Z", "00:00": "2026-11-22T00:00:00.000Z",
		"2024-02-29T23:59:59.999Z": "2024-02-29T23:59:59.999Z", "2024-02-29T23:59": "2024-02-29T23:59:00.000Z",
		"-10m": "2026-11-22T13:53:07.212Z", "-0s": "2026-11-22T14:03:07.212Z", "-1d": "2026-11-21T14:03:07.212Z", "-2h": "2026-11-22T12:03:07.212Z",
	} {
		if ms, err := ParseTime(word, now); err != nil || FormatTime(ms) != want {
			t.Errorf("%s: %s, %v, want %s", word, FormatTime(ms), err, want)
		}
	}
	for _, word := range []string{
		"", "-", "-m", "-10", "-10x", "--1m", "-99999999m", "14", "24:00", "14:60", "1:03", "14:03:60", "14:03.5", "14:03:07.", "14:03:07.1234",
		"2023-02-29T00:00", "2024-13-01T00:00", "2024-1-01T00:00", "2024-01-01", "T14:03", "2024-01-01T", "noon", "14:03:07:01",
	} {
		if ms, err := ParseTime(word, now); err == nil {
			t.Errorf("%q: %s", word, FormatTime(ms))
		}
	}
}
