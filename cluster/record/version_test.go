package record

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"lockd/internal/testfile"
)

// The entries that version 1 has written open, for ever, with all that they hold.
func TestVersion1EntriesOpen(t *testing.T) {
	for i, want := range sampleEntries() {
		got, err := Decode(testfile.Compare(t, filepath.Join("testdata", "v1", fmt.Sprintf("entry%d.bin", i)), Append(nil, &want)))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("entry%d.bin: got %+v, %v\nwant %+v", i, got, err, want)
		}
	}
}
