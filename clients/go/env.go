package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// The environment: addresses of the servers, and settings.
var (
	nodes     = list("CLIENTS_NODES")
	cluster   = list("CLIENTS_CLUSTER")
	sentinels = list("CLIENTS_SENTINELS")
	master    = os.Getenv("CLIENTS_MASTER")
	control   = os.Getenv("CLIENTS_CONTROL")
	isLockd   = os.Getenv("CLIENTS_TARGET") == "lockd"
	onlyScene = os.Getenv("CLIENTS_SCENE") // "": all
	// safetyOnly: the machine has other work too, so delays are no failures.
	safetyOnly = os.Getenv("CLIENTS_JUDGE") == "safety"
)

// tooLate returns the error of a scene whose only failure is a delay.
func tooLate(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if !safetyOnly {
		return err
	}
	fmt.Fprintln(os.Stderr, "not judged:", err)
	return nil
}

func list(name string) []string {
	if v := os.Getenv(name); v != "" {
		return strings.Split(v, ",")
	}
	return nil
}

// node returns the address of a node, by any number.
func node(i int) string { return nodes[i%len(nodes)] }

// tell has the control port do something, and returns its answer.
func tell(ctx context.Context, path string) (string, error) {
	return request(ctx, http.MethodPost, path)
}

// request sends a request to the control port, and returns its answer.
func request(ctx context.Context, method, path string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, control+path, nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(string(text))
	}
	return strings.TrimSpace(string(text)), err
}

// needs refuses a scene that the target cannot play.
func needs(ok bool, what string) error {
	if ok {
		return nil
	}
	return noScene(fmt.Sprintf("%s has no %s here", os.Getenv("CLIENTS_TARGET"), what))
}
