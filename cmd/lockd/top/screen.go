package top

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"lockd/cmd/lockd/show"
	"lockd/internal/client"
	"lockd/internal/locks"
	"lockd/resp"
)

// redrawEvery is the interval at which the picture is redrawn without events: it shows its own age.
const redrawEvery = 500 * time.Millisecond

// forceMax bounds the wait for the answer to a force.
const forceMax = 10 * time.Second

// Run shows a model at the terminal until q is pressed or ctx ends. The error is the terminal's, or the
// answer with which a server has refused the first poll.
func Run(ctx context.Context, m *Model, poller *Poller, forcer *client.Cluster) error {
	screen, err := tcell.NewScreen(tcell.OptNegotiation(false)) // which a slow line would make wait
	if err != nil {
		return err
	}
	if err := screen.Init(); err != nil {
		return err
	}
	defer screen.Fini()
	screen.EnablePaste()
	l := newLoop(m, screen, poller.Poll, func(ctx context.Context, f Force) (int64, error) {
		return send(ctx, forcer, f)
	})
	return l.run(ctx)
}

// send ends the lock for the one holder that a token names, or for all holders, if they still have it. Only the
// beginning of a token is known here, and many tokens begin alike.
func send(ctx context.Context, c *client.Cluster, f Force) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, forceMax)
	defer cancel()
	defer c.Close()
	said, err := c.DoIdempotent(ctx, "LOCKS", "INFO", f.Key)
	if err != nil {
		return 0, err
	}
	if info, err := locks.ParseInfo(f.Key, said); err != nil || info == nil || show.Fence(&info.Lock) != f.Fence {
		return 0, err
	}
	words := []string{"LOCKS", "FORCE", f.Key, "REASON", f.Reason}
	if f.Token != "" {
		words = append(words, "TOKEN", f.Token, "FENCE", strconv.FormatInt(f.Fence, 10))
	}
	r, err := c.DoOnce(ctx, words...)
	if err == nil && r.IsErr() {
		err = resp.Error(r.Str)
	}
	return r.Int, err
}

// loop is the state of the screen between setup and restoration of the terminal.
type loop struct {
	m      *Model
	screen tcell.Screen
	poll   func(context.Context, Ask) (Snapshot, error)
	force  func(context.Context, Force) (int64, error)

	polls   chan pollAnswer // one is on its way at a time
	forces  chan forceAnswer
	asking  bool
	again   bool // another poll is wanted behind the one on its way
	pasting bool
}

// Messages from the servers.
type (
	pollAnswer struct {
		snapshot Snapshot
		err      error
	}
	forceAnswer struct {
		force Force
		n     int64
		err   error
	}
)

func newLoop(m *Model, screen tcell.Screen, poll func(context.Context, Ask) (Snapshot, error),
	force func(context.Context, Force) (int64, error)) *loop {
	return &loop{m: m, screen: screen, poll: poll, force: force,
		polls: make(chan pollAnswer, 1), forces: make(chan forceAnswer, 1)}
}

func (l *loop) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	redraw := time.NewTicker(redrawEvery)
	defer redraw.Stop()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-redraw.C:
		case <-next.C:
			if !l.asking {
				l.ask(ctx)
			}
		case a := <-l.polls:
			if err := l.answered(a); err != nil {
				return err
			}
			next.Reset(l.m.Pause())
			if l.again {
				l.ask(ctx)
			}
		case a := <-l.forces:
			l.m.Forced(a.force, a.n, a.err)
			l.ask(ctx)
		case e, open := <-l.screen.EventQ():
			if !open {
				return nil
			}
			if failed, ok := e.(*tcell.EventError); ok {
				return failed
			}
			if quit := l.do(ctx, l.event(e)); quit {
				return nil
			}
		}
		l.draw()
	}
}

// ask polls at once, or behind the poll that is on its way.
func (l *loop) ask(ctx context.Context) {
	l.again = l.asking
	if l.asking {
		return
	}
	l.asking = true
	a := l.m.Ask()
	go func() {
		s, err := l.poll(ctx, a)
		l.polls <- pollAnswer{s, err}
	}()
}

// answered takes in the result of a poll. A server that refuses the first one will refuse them all.
func (l *loop) answered(a pollAnswer) error {
	l.asking = false
	var refused resp.Error
	switch {
	case a.err == nil:
		l.m.Update(a.snapshot)
	case errors.As(a.err, &refused) && l.m.last.Addr == "":
		return a.err
	default:
		l.m.Missed(a.err)
	}
	return nil
}

func (l *loop) do(ctx context.Context, do Do) (quit bool) {
	if f := do.Force; f != nil {
		go func() {
			n, err := l.force(ctx, *f)
			l.forces <- forceAnswer{*f, n, err}
		}()
	}
	if do.Refresh {
		l.ask(ctx)
	}
	return do.Quit
}

// event does what the terminal tells.
func (l *loop) event(e tcell.Event) Do {
	switch e := e.(type) {
	case *tcell.EventResize:
		l.screen.Sync()
	case *tcell.EventPaste:
		l.pasting = e.Start()
	case *tcell.EventKey:
		return l.key(e)
	}
	return Do{}
}

var specials = map[tcell.Key]Special{
	tcell.KeyUp: Up, tcell.KeyDown: Down, tcell.KeyPgUp: PageUp, tcell.KeyPgDn: PageDown, tcell.KeyHome: Home,
	tcell.KeyEnd: End, tcell.KeyEnter: Enter, tcell.KeyEsc: Escape, tcell.KeyBackspace: Backspace,
	tcell.KeyCtrlC: Interrupt,
}

func (l *loop) key(e *tcell.EventKey) (do Do) {
	switch {
	case !e.Pressed():
	case e.Key() == tcell.KeyCtrlL:
		l.screen.Sync()
	case e.Key() == tcell.KeyRune && e.Modifiers()&^tcell.ModShift == 0:
		for _, r := range e.Str() {
			do = l.m.Press(Key{Rune: r, Pasted: l.pasting})
		}
	case specials[e.Key()] != NoSpecial:
		do = l.m.Press(Key{Special: specials[e.Key()], Pasted: l.pasting})
	}
	return do
}

var styles = map[Style]tcell.Style{
	Plain:   tcell.StyleDefault,
	Strong:  tcell.StyleDefault.Bold(true),
	Title:   tcell.StyleDefault.Bold(true).Underline(true),
	Cursor:  tcell.StyleDefault.Reverse(true),
	Good:    tcell.StyleDefault.Foreground(color.Green),
	Warning: tcell.StyleDefault.Foreground(color.Red).Bold(true),
}

func (l *loop) draw() {
	width, height := l.screen.Size()
	l.screen.Clear()
	for y, line := range l.m.View(width, height, time.Now()) {
		x := 0
		for _, s := range line {
			l.screen.PutStrStyled(x, y, s.Text, styles[s.Style])
			x += show.Width(s.Text)
		}
	}
	l.screen.Show()
}
