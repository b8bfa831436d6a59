//go:build !faults

package store

import (
	"github.com/hashicorp/raft"
	boltstore "github.com/hashicorp/raft-boltdb/v2"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/types"
)

// The wrappers of a test build (fault.go) do nothing in this build.

func faultyFiles(files types.VFS) types.VFS { return files }

func faultyBolt(log *boltstore.BoltStore) raft.LogStore { return log }

func faultyVotes(votes *boltstore.BoltStore, _ boltstore.Options) raft.StableStore { return votes }

func faultySnapshots(snaps raft.SnapshotStore, _ string) raft.SnapshotStore { return snaps }

func segmentBytes() int { return wal.DefaultSegmentSize }
