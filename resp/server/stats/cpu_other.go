//go:build !unix

package stats

import "lockd/resp"

// CPUSection is INFO's section CPU, which has nothing to say here.
func CPUSection() resp.Section { return resp.Section{Name: "CPU"} }
