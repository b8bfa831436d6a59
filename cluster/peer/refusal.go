package peer

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
)

// Reason says in a refusal what follows for the node that is refused. Its operator reads the text beside the reason.
type Reason string

// The reasons of this version of the protocol. A node takes one that it does not know for Passing.
const (
	Passing  Reason = ""         // none of those below: the refusal may pass, and the node tries again
	Removed  Reason = "removed"  // the node was removed from the cluster
	Wiped    Reason = "wiped"    // the member had another data folder
	Copied   Reason = "copied"   // the data folder is a copy from before a later start
	Lost     Reason = "lost"     // the log of the node ends before what the node had confirmed
	Outdated Reason = "outdated" // the node cannot do the level in force
	Foreign  Reason = "foreign"  // the node belongs to another cluster
	Stranger Reason = "stranger" // the node is in no cluster, and no member of this one
)

// Because returns an error like err. A node that is refused by it is told the reason.
func Because(why Reason, err error) error { return &reasoned{why, err} }

// ReasonOf returns the outermost reason of an error.
func ReasonOf(err error) Reason {
	var r *reasoned
	if errors.As(err, &r) {
		return r.why
	}
	return Passing
}

type reasoned struct {
	why Reason
	error
}

func (r *reasoned) Unwrap() error { return r.error }

// Refusal is the body of a refuse message, and the error of a connection that the other side refused.
type Refusal struct {
	By     string // id of the node that refuses
	Reason Reason `json:",omitempty"`
	Text   string // for the operator of the node that is refused
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("refused by node %q: %s", r.By, r.Text)
}

func decodeRefusal(body []byte) *Refusal {
	r := &Refusal{}
	if err := json.Unmarshal(body, r); err != nil {
		r = &Refusal{Text: "for a reason that cannot be read"}
	}
	r.By, r.Text = OneLine(r.By, NameMax), OneLine(r.Text, helloTextMax)
	return r
}

// refuse tells the other side why, as far as it still listens.
func refuse(conn net.Conn, by string, err error) {
	if errors.Is(err, errStranger) {
		_, _ = conn.Write([]byte(strangerText))
		return
	}
	body := Refusal{By: by, Reason: ReasonOf(err), Text: OneLine(err.Error(), helloTextMax)}
	_, _ = conn.Write(appendHello(nil, helloRefuse, body))
}

// unwelcome is the error of a connection that this side refuses, to a node of lockd.
type unwelcome struct{ error }

func (e *unwelcome) Unwrap() error { return e.error }

func refusing(why error) error {
	if why == nil {
		return nil
	}
	return &unwelcome{why}
}

// ErrUninvited is wrapped by every error about a node that is none of this cluster. The
// operator is warned of it, once in a while.
var ErrUninvited = errors.New("not a peer of this cluster")
