package nemesis

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockd/jepsen-lite/history"
	"lockd/jepsen-lite/target"
)

// slowest is a target whose nodes take as long to end as a sound node may. If answers is false, it answers nothing.
type slowest struct {
	target.Target
	net     *target.Net
	nodes   []string
	answers bool
}

func (s *slowest) Net() *target.Net                     { return s.net }
func (s *slowest) Nodes() []string                      { return s.nodes }
func (s *slowest) Leader() string                       { return s.nodes[0] }
func (s *slowest) Serving(string) bool                  { return s.answers }
func (s *slowest) Running(string) bool                  { return true }
func (s *slowest) Kill(string)                          {}
func (s *slowest) Shutdown(string)                      { time.Sleep(stopIn) }
func (s *slowest) Restart(string) error                 { return nil }
func (s *slowest) Pause(string)                         {}
func (s *slowest) Resume(string)                        {}
func (s *slowest) Replace(string)                       {}
func (s *slowest) PutBack(string, string) bool          { return true }
func (s *slowest) Fault(string, string) (string, error) { return "", os.ErrDeadlineExceeded }
func (s *slowest) Fill(string, bool)                    {}
func (s *slowest) LimitFiles(string, int) error         { return nil }
func (s *slowest) SetBuild(string, string) error        { return nil }
func (s *slowest) Adopt(string)                         {}
func (s *slowest) Logged(string, string) bool           { return false }
func (s *slowest) ResetFaults(string)                   {}
func (s *slowest) Die(string, target.Act)               {}
func (s *slowest) Dir(string) string                    { return filepath.Join(os.TempDir(), "no-folder") }
func (s *slowest) ID(node string) string                { return node }
func (s *slowest) Ports(string) []*target.Proxy         { return nil }
func (s *slowest) PeerAddr(string) string               { return "" }

func (s *slowest) Arm(node string, strike target.Strike) (target.Armed, error) {
	return target.Armed{Strike: strike, Node: node}, nil
}

// Disarm waits for a hanging disk, as long as it may hang.
func (s *slowest) Disarm(a target.Armed) {
	if a.Act == target.ActStall {
		time.Sleep(snapshotHang)
	}
}

// Tool runs until it is told to end.
func (s *slowest) Tool(ctx context.Context, _ ...string) (int, string, error) {
	<-ctx.Done()
	return 0, "", ctx.Err()
}

func (s *slowest) StartTool(string, ...string) (target.Program, error) {
	return target.Program{}, os.ErrNotExist
}
func (s *slowest) Reach(bool, ...string) []string                   { return nil }
func (s *slowest) NewSingle(string, string) (*target.Single, error) { return nil, os.ErrNotExist }

// Damage leaves a damaged snapshot that is never removed.
func (s *slowest) Damage(_ string, do func(target.Folder) string) bool { do(s.Folder("")); return true }

func (s *slowest) Folder(string) target.Folder { return staleFolder{} }

// staleFolder is a folder with a snapshot that is never removed.
type staleFolder struct{ target.Folder }

func (staleFolder) Snapshots() []string                          { return []string{"1-1-1"} }
func (staleFolder) Flip(target.Part, *rand.Rand) (string, error) { return "a bit", nil }
func (staleFolder) CopyTo(string) error                          { return os.ErrNotExist }

func (s *slowest) Memory(string) (now, most int64, err error)  { return 0, 0, os.ErrNotExist }
func (s *slowest) Knock(string, target.Door) (net.Conn, error) { return nil, os.ErrNotExist }
func (s *slowest) Endpoint(int, int) (string, string, error)   { return "", "", os.ErrNotExist }

func (s *slowest) Dial(_ string, timeout time.Duration) (*target.Conn, error) {
	time.Sleep(timeout)
	return nil, os.ErrDeadlineExceeded
}

func (s *slowest) Do(_ string, timeout time.Duration, _ ...string) (target.Reply, error) {
	if s.answers {
		return target.Reply{Kind: '+', Str: "OK"}, nil
	}
	time.Sleep(timeout)
	return target.Reply{}, os.ErrDeadlineExceeded
}

// Every fault ends within SettleMax after the time of the run, whatever it is doing then, and whether the cluster
// answers or not.
func TestFaultsEndWithTheRun(t *testing.T) {
	longest := map[string]time.Duration{}
	for _, k := range Table {
		for _, v := range k.Variants {
			for i := range 2 * 2 * 4 * 3 {
				fault := Fault{Kind: k.Name, Variant: v, Dice: []uint64{0, 1, 2 << 32, 3}[i/4%4]}
				answers, nodes := i%2 == 0, 3+i/2%2*2
				length := []time.Duration{10 * time.Millisecond, 900 * time.Millisecond, 7 * time.Second}[i/16]
				var took time.Duration
				synctest.Test(t, func(t *testing.T) { took = settling(t, fault, nodes, answers, length) })
				if took > SettleMax {
					t.Errorf("%+v, %d nodes, answers %v: made whole %s after the end of a run of %s", fault, nodes, answers,
						took, length)
				}
				longest[k.Name] = max(longest[k.Name], took)
			}
		}
	}
	t.Log(longest)
}

// settling plays one fault in a run, and returns how long after the end of the run the fault ended.
func settling(t *testing.T, fault Fault, nodes int, answers bool, length time.Duration) time.Duration {
	s := &slowest{net: target.NewNet(), answers: answers}
	for i := range nodes {
		s.nodes = append(s.nodes, fmt.Sprint("n", i+1))
	}
	f := &Runner{Target: s, History: history.NewRecorder(io.Discard, time.Now())}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	began := time.Now()
	f.Run(ctx, []Step{{For: time.Second, Wide: true, Faults: []Fault{fault}}})
	took := time.Since(began) - length
	time.Sleep(time.Minute) // for calls that the fault does not wait for
	return took
}

// No fault begins after the time of the run, not even in a step that has begun.
func TestNoFaultBeginsAfterTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		rec := history.NewRecorder(&said, time.Now())
		f := &Runner{Target: &slowest{net: target.NewNet(), nodes: []string{"n1", "n2", "n3"}}, History: rec}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := Fault{Kind: "pause", Variant: "leader"}
		f.Run(ctx, []Step{ // the first fault waits for an answer in vain
			{Wide: true, Faults: []Fault{{Kind: "transfer", Variant: "once"}, late}}, {Wide: true, Faults: []Fault{late}},
		})
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		h, err := history.Read(strings.NewReader(said.String()))
		if err != nil || len(h.Faults) != 1 || h.Faults[0].Kind != "transfer" {
			t.Errorf("%v; faults: %+v", err, h.Faults)
		}
	})
}
