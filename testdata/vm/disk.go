package vm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// Disk is a disk with a write cache that a power cut empties: what was written since the last flush is then there,
// missing or there in part, write by write. It is served by the NBD protocol to one emulator at a time.
type Disk struct {
	file *os.File
	size int64
	// unflushed are the writes since the last flush, in order. The file has them: a cut takes them back.
	unflushed []write
	flushes   int
	// left counts down the writes until the power fails; lost is closed then.
	left atomic.Int64
	lost chan struct{}
}

type write struct {
	at       int64
	old, new []byte
}

// openDisk opens the disk that is kept in a file.
func openDisk(path string) (*Disk, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Disk{file: f, size: info.Size()}, nil
}

// Close closes the file.
func (d *Disk) Close() error { return d.file.Close() }

// FailAfter lets the power fail right after that many further writes: the disk answers nothing more, so that nothing can be
// confirmed either. What it returns is closed then, and what is left to do is Cut.
func (d *Disk) FailAfter(writes int) <-chan struct{} {
	d.lost = make(chan struct{})
	d.left.Store(int64(writes))
	return d.lost
}

func (d *Disk) write(at int64, data []byte) error {
	old := make([]byte, len(data))
	if _, err := d.file.ReadAt(old, at); err != nil {
		return err
	}
	d.unflushed = append(d.unflushed, write{at, old, data})
	_, err := d.file.WriteAt(data, at)
	return err
}

func (d *Disk) flush() {
	d.unflushed = nil
	d.flushes++
}

// Cut is the end of the power while nobody serves the disk. It returns what became of the writes in the cache.
func (d *Disk) Cut(random *rand.Rand) (string, error) {
	for i := len(d.unflushed) - 1; i >= 0; i-- {
		if _, err := d.file.WriteAt(d.unflushed[i].old, d.unflushed[i].at); err != nil {
			return "", err
		}
	}
	var kept, torn int
	for _, w := range d.unflushed {
		data := w.new
		switch random.IntN(3) {
		case 0:
			continue
		case 1:
			data = data[:random.IntN(len(data)/sector+1)*sector]
			torn++
		default:
			kept++
		}
		if _, err := d.file.WriteAt(data, w.at); err != nil {
			return "", err
		}
	}
	said := fmt.Sprintf("%d flushes; of %d writes since the last one %d kept, %d torn", d.flushes, len(d.unflushed), kept, torn)
	d.unflushed, d.flushes = nil, 0
	return said, nil
}

// The numbers of the NBD protocol, as far as an emulator needs them.
const (
	nbdGreeting, nbdOption, nbdOptionReply = 0x4e42444d41474943, 0x49484156454F5054, 0x3e889045565a9
	nbdRequest, nbdReply                   = 0x25609513, 0x67446698

	fixedNewstyle, noZeroes = 1, 2
	hasFlags, sendFlush     = 1, 4

	optionAbort, optionGo               = 2, 7
	replyAck, replyInfo, replyUnknown   = 1, 3, 1<<31 + 1
	infoExport                          = 0
	cmdRead, cmdWrite, cmdEnd, cmdFlush = 0, 1, 2, 3
	errInvalid, errIO                   = 22, 5
)

// Serve lets one emulator use the disk until it hangs up or dies.
func (d *Disk) Serve(c net.Conn) error {
	in, out := bufio.NewReaderSize(c, 1<<20), bufio.NewWriterSize(c, 1<<20)
	if err := d.greet(in, out); err != nil {
		return fmt.Errorf("nbd: %w", err)
	}
	for {
		var r struct {
			Magic       uint32
			Flags, Type uint16
			Handle      uint64
			At          uint64
			Length      uint32
		}
		if err := binary.Read(in, binary.BigEndian, &r); err != nil {
			return nil // the emulator is gone: that is what it is made for
		}
		if r.Magic != nbdRequest {
			return fmt.Errorf("nbd: request begins with %x", r.Magic)
		}
		var reply []byte
		code := uint32(0)
		switch r.Type {
		case cmdRead:
			reply = make([]byte, r.Length)
			if _, err := d.file.ReadAt(reply, int64(r.At)); err != nil {
				code, reply = errIO, nil
			}
		case cmdWrite:
			data := make([]byte, r.Length)
			if _, err := io.ReadFull(in, data); err != nil {
				return nil // not whole: it was never taken
			}
			if err := d.write(int64(r.At), data); err != nil {
				code = errIO
			}
			if d.left.Add(-1) == 0 {
				close(d.lost)
				_, _ = io.Copy(io.Discard, in) // until the emulator is ended
				return nil
			}
		case cmdFlush:
			d.flush()
		case cmdEnd:
			return nil
		default:
			code = errInvalid
		}
		answer := binary.BigEndian.AppendUint32(nil, nbdReply)
		answer = binary.BigEndian.AppendUint32(answer, code)
		answer = binary.BigEndian.AppendUint64(answer, r.Handle)
		_, _ = out.Write(answer)
		_, _ = out.Write(reply)
		if err := out.Flush(); err != nil {
			return nil
		}
	}
}

// greet agrees on the disk's size and on flushes.
func (d *Disk) greet(in io.Reader, out *bufio.Writer) error {
	say := func(values ...any) error {
		for _, v := range values {
			if err := binary.Write(out, binary.BigEndian, v); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	if err := say(uint64(nbdGreeting), uint64(nbdOption), uint16(fixedNewstyle|noZeroes)); err != nil {
		return err
	}
	var flags uint32
	if err := binary.Read(in, binary.BigEndian, &flags); err != nil {
		return err
	}
	for {
		var option struct {
			Magic        uint64
			Kind, Length uint32
		}
		if err := binary.Read(in, binary.BigEndian, &option); err != nil {
			return err
		}
		if _, err := io.CopyN(io.Discard, in, int64(option.Length)); err != nil {
			return err
		}
		header := []any{uint64(nbdOptionReply), option.Kind}
		switch option.Kind {
		case optionGo:
			if err := say(append(header, uint32(replyInfo), uint32(12), uint16(infoExport), uint64(d.size), uint16(hasFlags|sendFlush))...); err != nil {
				return err
			}
			return say(append(header, uint32(replyAck), uint32(0))...)
		case optionAbort:
			return errors.New("the emulator does not want the disk")
		default:
			if err := say(append(header, uint32(replyUnknown), uint32(0))...); err != nil {
				return err
			}
		}
	}
}
