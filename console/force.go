package console

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// everybody is the form's value for all holders of a lock.
const everybody = "all"

// force ends a lock, and redirects to the lock's page.
func (c *Console) force(w http.ResponseWriter, r *http.Request) {
	lang := languageOf(r.Header.Get("Accept-Language"))
	r.Body = http.MaxBytesReader(w, r.Body, formBytesMax)
	q, err := parseQuery(r.URL.Query())
	if err == nil {
		err = r.ParseForm()
	}
	command, bad := forceCommand(&q, r.PostForm)
	if err = cmp.Or(err, bad); err != nil {
		http.Error(w, lang.translate(err.Error()), http.StatusBadRequest)
		return
	}
	answers, err := c.ask(r.Context(), question{visitor: visitorOf(r), db: q.DB, commands: [][]string{command}})
	if answerRefusal(w, lang, err) {
		return
	}
	if err == nil && answers[0].IsErr() {
		err = errors.New(answers[0].Str)
	}
	if err != nil {
		c.show(w, r, pages["lock"], &q, lang.translate("The node answers: %s", printable(err.Error())), http.StatusConflict)
		return
	}
	http.Redirect(w, r, lockURL(q.DB, q.Key)+"&forced="+strconv.FormatInt(answers[0].Int, 10), http.StatusSeeOther)
}

func forceCommand(q *query, form url.Values) ([]string, error) {
	reason, whose := strings.TrimSpace(form.Get("reason")), form.Get("token")
	fence, name, _ := strings.Cut(whose, "-") // many tokens begin alike, and no more than their beginning is shown
	token, err := hex.DecodeString(name)
	switch {
	case q.Key == "":
		return nil, errors.New("no key is given")
	case reason == "":
		return nil, errors.New("A reason is needed.")
	case len(reason) > reasonBytesMax:
		return nil, fmt.Errorf("a reason has at most %d bytes", reasonBytesMax)
	case whose == everybody:
		return []string{"LOCKS", "FORCE", q.Key, "REASON", reason}, nil
	case name == "" || err != nil:
		return nil, errors.New("no token is given")
	}
	return []string{"LOCKS", "FORCE", q.Key, "TOKEN", string(token), "FENCE", fence, "REASON", reason}, nil
}
