package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"lockd/cluster/membership"
	"lockd/resp"
)

// The image in a snapshot:
//
//	magic   8 bytes
//	version 1 byte, imageVersion
//	length  4 bytes, little endian, of the body
//	body    uvarints: parts, of which there are none yet, and the index of the last entry applied; the roster
//	crc     4 bytes, CRC-32C of the body, little endian
//	        the machine's own image, up to the end
//
// A part of the body that this lockd does not know is refused.
const (
	ImageMagic   = "lockdsnp"
	ImageVersion = 1
	imageBodyMax = 16 << 20 // bytes

	imageMagicDevelopment = "lockdimg" // of development builds: their versions are others
)

// ErrImage is wrapped by every error about an unreadable snapshot.
var ErrImage = errors.New("unreadable snapshot")

// AppendImageHead appends the head of an image, which precedes the machine's own image.
func AppendImageHead(dst []byte, applied uint64, ros *membership.Roster) []byte {
	body := ros.Append(binary.AppendUvarint(binary.AppendUvarint(nil, 0), applied))
	dst = append(append(dst, ImageMagic...), ImageVersion)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(body)))
	dst = append(dst, body...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, resp.CRC32C))
}

// ReadImage reads the head of an image.
func ReadImage(r io.Reader) (applied uint64, ros *membership.Roster, err error) {
	head := make([]byte, len(ImageMagic)+1+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	size := binary.LittleEndian.Uint32(head[len(ImageMagic)+1:])
	version := head[len(ImageMagic)]
	switch {
	case string(head[:len(ImageMagic)]) == imageMagicDevelopment:
		return 0, nil, fmt.Errorf("%w: it %s", ErrImage, resp.SaysDevelopment)
	case string(head[:len(ImageMagic)]) != ImageMagic:
		return 0, nil, fmt.Errorf("%w: it does not begin like one", ErrImage)
	case version < 1 || version > ImageVersion:
		return 0, nil, fmt.Errorf("%w: format %d is unknown to this version of lockd, which reads up to %d",
			ErrImage, version, ImageVersion)
	case size > imageBodyMax:
		return 0, nil, fmt.Errorf("%w: a header of %d bytes", ErrImage, size)
	}
	body := make([]byte, size+4)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	sum := binary.LittleEndian.Uint32(body[size:])
	if body = body[:size]; sum != crc32.Checksum(body, resp.CRC32C) {
		return 0, nil, fmt.Errorf("%w: its checksum does not match", ErrImage)
	}
	d := resp.NewDecoder(body)
	d.Parts("the head of a snapshot", 0)
	applied, ros = d.Uvarint(), membership.ReadRoster(&d)
	if err := d.End(); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", ErrImage, err)
	}
	return applied, ros, nil
}
