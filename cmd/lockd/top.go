package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"lockd/cmd/lockd/operate"
	"lockd/cmd/lockd/top"
	"lockd/resp"
)

// topCmd watches the locks of a cluster in a terminal.
type topCmd struct {
	askFlags `embed:""`

	Interval time.Duration `default:"1s" help:"How often to look; less often where looking takes more than a tenth of it (default: ${default})."`
	Count    int           `default:"500" help:"No more locks than this: of more, those that are held longest (default: ${default})." placeholder:"N"`
	Once     bool          `help:"Print one picture as text and end."`
}

const topIntervalMin = 100 * time.Millisecond

func (c *topCmd) check() error {
	switch {
	case c.Interval < topIntervalMin:
		return usagef("--interval %s is less than %s", c.Interval, topIntervalMin)
	case c.Count < 1:
		return usagef("--count %d is not positive", c.Count)
	}
	return c.askFlags.check()
}

// run shows the picture, or prints it once.
func (c *topCmd) run(ctx context.Context, stdout, _ io.Writer) error {
	poller := &top.Poller{Cluster: c.cluster("lockd-top")}
	if c.Once {
		return c.once(ctx, poller, stdout)
	}
	f, ok := stdout.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) || os.Getenv("TERM") == "dumb" {
		return usagef("top needs a terminal: --once prints one picture as text, lockd locks list a table")
	}
	forcer := c.cluster("lockd-top")
	err := top.Run(ctx, top.New(c.Interval, c.Count), poller, forcer)
	var refused resp.Error
	if errors.As(err, &refused) {
		return operate.Refused(string(refused))
	}
	return err
}

func (c *topCmd) once(ctx context.Context, poller *top.Poller, stdout io.Writer) error {
	m := top.New(0, c.Count)
	snapshot, err := poller.Poll(ctx, m.Ask())
	var refused resp.Error
	switch {
	case errors.As(err, &refused):
		return operate.Refused(string(refused))
	case err != nil:
		return fmt.Errorf("no server answers: %w", err)
	}
	m.Update(snapshot)
	_, err = io.WriteString(stdout, strings.Join(m.Picture(outputWidth(stdout), time.Now()), "\n")+"\n")
	return err
}
