//go:build !unix

package stats

import "lockd/resp"

// CPUSection returns INFO's section CPU, which is empty on this system.
func CPUSection() resp.Section { return resp.Section{Name: "CPU"} }
