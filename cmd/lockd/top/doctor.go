package top

import (
	"context"
	"strings"
	"time"

	"lockd/internal/locks"
)

// doctorEvery is how often LOCKS DOCTOR is asked: what it says changes slowly.
const doctorEvery = 10 * time.Second

// askDoctor asks LOCKS DOCTOR now and then. A server that has none, or does not let this user ask, is
// asked no more; only where no server answers is that an error.
func (l *Looker) askDoctor(ctx context.Context) ([]Flag, error) {
	if l.mute || time.Since(l.doctor) < doctorEvery {
		return l.flags, nil
	}
	r, err := l.ask(ctx, "DOCTOR")
	if err != nil {
		return nil, err
	}
	said, err := locks.ParseDoctor(r)
	if err != nil {
		l.mute, l.flags = true, nil
		return nil, nil
	}
	l.doctor, l.flags = time.Now(), nil
	for _, f := range said.Findings {
		l.flags = append(l.flags, flagOf(f))
	}
	return l.flags, nil
}

// flagOf takes the keys of a finding for a pattern in which only the star is special.
func flagOf(f locks.Finding) Flag {
	return Flag{Pattern: strings.NewReplacer(`\`, `\\`, `[`, `\[`, `?`, `\?`).Replace(f.Keys), Said: f.Says}
}
