package vm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// patience is how long a test waits for what must happen: an emulated machine on a busy one is slow.
const patience = 10 * time.Minute

// dir is what testdata/vm/image.sh has made.
var dir = os.Getenv("JOBD_VM")

// machine is an emulated machine with a disk of its own.
type machine struct {
	t          *testing.T
	disk       *Disk
	process    *exec.Cmd
	served     chan error // the disk's connection has ended
	console    string     // file
	shell, api int        // ports of this host
	*kubernetes.Clientset
}

// newDisk makes an empty disk.
func newDisk(t *testing.T) *Disk {
	t.Helper()
	if dir == "" {
		t.Skip("needs the disks of an emulated machine: make e2e-vm")
	}
	path := filepath.Join(t.TempDir(), "data.ext4")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", path, "4G").CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}
	d, err := openDisk(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// boot starts a machine with a disk and waits until it takes orders. It ends with the test.
func boot(t *testing.T, disk *Disk) *machine {
	t.Helper()
	began := time.Now()
	m := &machine{t: t, disk: disk, served: make(chan error, 1), console: filepath.Join(t.TempDir(), "console"), shell: port(t), api: port(t)}

	socket := filepath.Join(t.TempDir(), "disk.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer listener.Close()
		c, err := listener.Accept()
		if err == nil {
			err = disk.Serve(c)
			_ = c.Close()
		}
		m.served <- err
	}()

	console, err := os.Create(m.console)
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close()
	// It lacks the features that cost an emulator most and that no test here is about.
	m.process = exec.Command("qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=512", "-cpu",
		"max,-la57,-smap,-smep,-pku,-avx,-avx2", "-m", "3072", "-smp", "2",
		"-kernel", filepath.Join(dir, "vmlinuz"), "-initrd", filepath.Join(dir, "initrd"),
		"-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check net.ifnames=0",
		"-display", "none", "-monitor", "none", "-serial", "stdio",
		// In this order they are /dev/vda, vdb and vdc.
		"-blockdev", "driver=file,node-name=base,read-only=on,filename="+filepath.Join(dir, "base.ext4"), "-device", "virtio-blk-pci,drive=base",
		"-blockdev", "driver=file,node-name=jobd,read-only=on,filename="+filepath.Join(dir, "jobd.ext4"), "-device", "virtio-blk-pci,drive=jobd",
		"-blockdev", "driver=nbd,node-name=data,server.type=unix,server.path="+socket, "-device", "virtio-blk-pci,drive=data",
		// Nothing leads out of the machine; two ports lead in.
		"-netdev", fmt.Sprintf("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:1,hostfwd=tcp:127.0.0.1:%d-10.0.2.15:2", m.shell, m.api),
		"-device", "virtio-net-pci,netdev=net,romfile=")
	m.process.Stdout, m.process.Stderr = console, console
	m.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			m.tell()
		}
		m.off()
		if t.Failed() {
			said, _ := os.ReadFile(m.console)
			t.Logf("the end of what the machine said:\n%s", said[max(0, len(said)-4000):])
		}
	})
	m.Clientset, err = kubernetes.NewForConfig(&rest.Config{
		Host:  "http://jobd",
		Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", m.api))
		},
		QPS: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	m.eventually("the machine is up", func() error {
		_, err := m.try("true")
		return err
	})
	t.Logf("booted after %v", time.Since(began).Round(100*time.Millisecond))
	return m
}

// port finds a free port of this host.
func port(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// off ends the emulator, and returns when nothing writes to the disk any more.
func (m *machine) off() {
	if m.process.ProcessState == nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
		if err := <-m.served; err != nil {
			m.t.Error(err)
		}
	}
}

// cut takes the power from the machine, and from its disk what the disk had not flushed.
func (m *machine) cut(random *rand.Rand) {
	m.t.Helper()
	m.off()
	said, err := m.disk.Cut(random)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Logf("power cut after %s", said)
}

// reboot restarts the machine in good order, and waits until it is up again.
func (m *machine) reboot() {
	m.t.Helper()
	began, was := time.Now(), m.sh("cat /proc/sys/kernel/random/boot_id")
	m.sh("setsid /opt/guest/reboot >/dev/console 2>&1 &")
	m.eventually("the machine is up again", func() error {
		if is, err := m.try("cat /proc/sys/kernel/random/boot_id"); err != nil || is == was {
			return errors.Join(errors.New("not yet"), err)
		}
		return nil
	})
	m.t.Logf("rebooted after %v", time.Since(began).Round(100*time.Millisecond))
}

// sh runs a script in the machine and returns its output; it must succeed.
func (m *machine) sh(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}

func (m *machine) try(script string) (string, error) {
	var out strings.Builder
	err := m.follow(script, func(line string) { out.WriteString(line) })
	return out.String(), err
}

// follow runs a script in the machine and passes its output on line by line.
func (m *machine) follow(script string, line func(string)) error {
	c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", m.shell))
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "export PATH=/opt/bin:$PATH\n%s\n.\n", script); err != nil {
		return err
	}
	var last string
	for in := bufio.NewReader(c); ; {
		read, err := in.ReadString('\n')
		if err != nil {
			code, ok := strings.CutPrefix(last, "exit ")
			if n, err := strconv.Atoi(strings.TrimSpace(code)); !ok || err != nil {
				return errors.New("the machine does not answer")
			} else if n != 0 {
				return fmt.Errorf("exit code %d", n)
			}
			return nil
		}
		if last != "" {
			line(last)
		}
		last = read
	}
}

// eventually waits until something is so.
func (m *machine) eventually(what string, is func() error) {
	m.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
		if said, err := os.ReadFile(m.console); err == nil && bytes.Contains(said, []byte("Kernel panic")) {
			m.t.Fatalf("%s: the kernel panics", what)
		}
	}
	m.t.Fatalf("%s: not within %v: %v", what, patience, err)
}

// serve starts jobd for the first time on this disk; later it starts with the machine.
func (m *machine) serve() {
	m.t.Helper()
	m.sh("mkdir -p /var/lib/jobd && /opt/guest/jobd")
	m.ready()
	m.sh("jobctl image import /opt/bin/busybox.tar")
}

// ready waits until jobd answers.
func (m *machine) ready() {
	m.t.Helper()
	began := time.Now()
	m.eventually("jobd answers", func() error {
		ctx, cancel := context.WithTimeout(m.t.Context(), time.Minute)
		defer cancel()
		return m.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
	m.t.Logf("jobd answers after %v", time.Since(began).Round(100*time.Millisecond))
}

// sound checks the database, and in the end that jobd can be cleaned away.
func (m *machine) sound() {
	m.t.Helper()
	if out, err := m.try("jobd db check"); err != nil || strings.TrimSpace(out) != "sound" {
		m.t.Errorf("jobd db check: %v: %s", err, out)
	}
}

// tell says what jobd logged last and where each of its goroutines is, for a test that failed.
func (m *machine) tell() {
	told := make(chan string, 1)
	go func() {
		said, err := m.try(`busybox ps; busybox killall -QUIT jobd; sleep 5; busybox tail -c 300000 /var/lib/jobd.log`)
		told <- fmt.Sprint(said, err)
	}()
	select {
	case said := <-told:
		m.t.Logf("jobd in the machine:\n%s", said)
	case <-time.After(time.Minute):
		m.t.Log("the machine does not answer")
	}
}

// clean ends jobd and checks that nothing of it is left in the machine.
func (m *machine) clean() {
	m.t.Helper()
	m.sh("touch /run/reboot; busybox killall jobd; while busybox pidof jobd >/dev/null; do sleep 0.1; done; jobd clean")
	left := m.sh(`
		pgrep -af 'jobd-shim|crun' || true
		grep -E ' /(run|var/lib)/jobd' /proc/self/mounts || true
		find /sys/fs/cgroup/jobd -mindepth 1 -type d 2>/dev/null || true
		ip -o link | grep jobd || true`)
	if left != "" {
		m.t.Errorf("left in the machine:\n%s", left)
	}
}
