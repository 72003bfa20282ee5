package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/nftables"
)

// bridgeLine matches the line in which a daemon names its bridge.
var bridgeLine = regexp.MustCompile(`network +bridge \S+, (\S+)`)

// networkOnHost finds the bridge and the nft tables of a daemon, and the links of its pods, by what it has printed.
// There may be other daemons.
func networkOnHost(root, output string) (found []string) {
	sum := sha256.Sum256([]byte(root))
	name := "jobd-" + hex.EncodeToString(sum[:4])
	var subnet netip.Prefix
	if said := bridgeLine.FindStringSubmatch(output); said != nil {
		subnet, _ = netip.ParsePrefix(said[1])
	}
	links, _ := filepath.Glob("/sys/class/net/jobd*")
	for _, l := range links {
		pod, _ := hex.DecodeString(strings.TrimPrefix(filepath.Base(l), "jobd")) // links are named after the pods' addresses
		address, _ := netip.AddrFromSlice(pod)
		if filepath.Base(l) == name || subnet.Contains(address) {
			found = append(found, l)
		}
	}
	if conn, err := nftables.New(); err == nil {
		for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyBridge} {
			if table, err := conn.ListTableOfFamily(name, family); err == nil && table != nil {
				found = append(found, "nft table "+name)
			}
		}
		policies := name + "-policies"
		for _, family := range []nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyBridge} {
			if table, err := conn.ListTableOfFamily(policies, family); err == nil && table != nil {
				found = append(found, "nft table "+policies)
			}
		}
		services := name + "-services"
		if table, err := conn.ListTableOfFamily(services, nftables.TableFamilyIPv4); err == nil && table != nil {
			found = append(found, "nft table "+services)
		}
	}
	return found
}

// needBridge skips a test on a host where the daemon has to do without a bridge.
func (d *daemon) needBridge() {
	d.t.Helper()
	if !strings.Contains(d.output.String(), "network     bridge ") {
		d.t.Skip("needs a bridge")
	}
}

func TestPodReachesPodByAddress(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "while true; do echo hello | nc -l -p 9000; done"]}
`)
	server := d.podIP("server")
	d.kill() // nothing that runs depends on the daemon
	d.serve()
	d.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: client}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: c
        image: busybox:1.36
        env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        command: [sh, -c, 'echo $IP; ip -4 addr show eth0 | grep -q "inet $IP/" && until nc -w 1 %s 9000 </dev/null | grep .; do sleep 0.1; done'] # nc takes silence for an end
`, server))
	d.complete("client")
	client := d.pods("client")[0].Status.PodIP
	if got, want := d.jobctl("logs", "jobs/client"), client+"\nhello\n"; got != want || client == server {
		t.Errorf("the client said %q, want %q; the server has %s", got, want, server)
	}
}

// podIP waits until a pod has an address and returns it.
func (d *daemon) podIP(name string) string {
	d.t.Helper()
	ip := ""
	d.eventually("pod "+name+" has an address", func() error {
		ip = strings.TrimSpace(d.jobctl("get", "pod", name, "-o", "jsonpath={.status.podIP}"))
		if ip == "" {
			return fmt.Errorf("none yet")
		}
		return nil
	})
	return ip
}

// The Job documentation's "Job with Pod-to-Pod Communication", with nc in place of ping: a hostname leads to a pod that
// listens.
func TestPodToPodByName(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: headless-svc}
spec:
  clusterIP: None
  selector: {job-name: example-job}
---
apiVersion: batch/v1
kind: Job
metadata: {name: example-job}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  template:
    spec:
      subdomain: headless-svc
      restartPolicy: Never
      containers:
      - name: example-workload
        image: busybox:1.36
        command:
        - sh
        - -c
        - |
          for i in 0 1 2; do
            # The whole name first: a short one that is not there yet would be asked for outside.
            until nslookup example-job-$i.headless-svc.default.svc.cluster.local. > /dev/null 2>&1; do sleep 0.2; done
            until ping -c 1 -W 5 example-job-$i.headless-svc > /dev/null; do sleep 0.2; done
            echo "reached example-job-$i"
          done
          until [ "$(nslookup headless-svc.default.svc.cluster.local. | grep -c '^Address.* 1[079]')" -ge 3 ]; do sleep 0.2; done
          : > /done/$JOB_COMPLETION_INDEX # the others want to find this one still
          until [ -e /done/0 ] && [ -e /done/1 ] && [ -e /done/2 ]; do sleep 0.1; done
        volumeMounts: [{name: done, mountPath: /done}]
      volumes: [{name: done, hostPath: {path: %s}}]
`, t.TempDir()))
	d.complete("example-job")
	for _, p := range d.pods("example-job") {
		if got, want := d.jobctl("logs", p.Name), "reached example-job-0\nreached example-job-1\nreached example-job-2\n"; got != want {
			t.Errorf("%s said %q", p.Name, got)
		}
	}
}

func TestHostnameHostsAndResolvConf(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: batch/v1
kind: Job
metadata: {name: names}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      hostname: me
      subdomain: sub
      setHostnameAsFQDN: true
      hostAliases: [{ip: 192.0.2.9, hostnames: [far, away]}]
      dnsConfig: {searches: [example.org], options: [{name: ndots, value: "2"}, {name: edns0}]}
      containers:
      - name: c
        image: busybox:1.36
        env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
        command:
        - sh
        - -c
        - |
          hostname; cat /etc/hostname
          grep "^$IP" /etc/hosts | cut -f 2-; grep far /etc/hosts
          grep search /etc/resolv.conf | cut -d ' ' -f 1-4; grep -o 'example.org' /etc/resolv.conf; grep options /etc/resolv.conf
          [ $(ip route | sed -n 's/default via \([^ ]*\).*/\1/p') = $(sed -n 's/nameserver //p' /etc/resolv.conf) ] && echo gateway
          nslookup nobody.default.svc.cluster.local. | grep -o -m 1 NXDOMAIN
`)
	d.complete("names")
	const fqdn = "me.sub.default.svc.cluster.local"
	want := fqdn + "\n" + fqdn + "\n" + fqdn + "\tme\n192.0.2.9\tfar\taway\n" +
		"search default.svc.cluster.local svc.cluster.local cluster.local\nexample.org\noptions ndots:2 edns0\ngateway\nNXDOMAIN\n"
	if got := d.jobctl("logs", "jobs/names"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestHostPort(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	_, port, _ := net.SplitHostPort(freePort(t))
	d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: server}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, "while true; do echo hello | nc -l -p 80; done"]
    ports: [{containerPort: 80, hostPort: %s}]
`, port))
	reach := func() error {
		c, err := net.DialTimeout("tcp4", net.JoinHostPort("127.0.0.1", port), time.Second)
		if err != nil {
			return err
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Second))
		heard := make([]byte, 6)
		if _, err := io.ReadFull(c, heard); err != nil || string(heard) != "hello\n" {
			return fmt.Errorf("heard %q: %w", heard, err)
		}
		return nil
	}
	d.eventually("the port of the host leads to the pod", reach)
	d.kill()
	d.serve()
	d.eventually("it still does after a crash", reach)
	d.jobctl("delete", "pod", "server")
	d.eventually("it does not when the pod is gone", func() error {
		if reach() == nil {
			return fmt.Errorf("it does")
		}
		return nil
	})
}

// A pod that asks for a port that it cannot have is told so, and is not started without it.
func TestHostPortsThatNoPodGets(t *testing.T) {
	t.Parallel()
	listen := freePort(t)
	d := start(t, "--listen", listen)
	d.needBridge()
	_, port, _ := net.SplitHostPort(listen)
	subnet, err := netip.ParsePrefix(bridgeLine.FindStringSubmatch(d.output.String())[1])
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct{ port, says string }{
		"elsewhere": {"hostPort: 80, hostIP: 93.184.216.34", "hostIP 93.184.216.34 is not an address of this host"},
		"names": {
			fmt.Sprintf("hostPort: 53, hostIP: %s, protocol: UDP", subnet.Addr().Next()),
			"is reserved: the name server of the pods has it",
		},
		"listen": {"hostPort: " + port, "is reserved: jobd's API (--listen) has it at " + listen},
	}
	for name, c := range cases {
		d.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1.36", command: [sleep, "1000"], ports: [{containerPort: 80, %s}]}]
`, name, c.port))
	}
	for name, c := range cases {
		d.eventually("pod "+name+" is told", func() error {
			if events := d.jobctl("events", "--for", "pod/"+name); !strings.Contains(events, "FailedCreatePodSandBox") ||
				!strings.Contains(events, c.says) {
				return fmt.Errorf("events:\n%s", events)
			}
			return nil
		})
		if got := d.jobctl("get", "pod", name, "-o", "jsonpath={.status.phase} {.status.podIP}"); got != "Pending " {
			t.Errorf("pod %s: %q", name, got)
		}
	}
	if got := d.jobctl("get", "--raw", "/readyz"); got != "ok" {
		t.Errorf("the API says %q", got)
	}
}

func TestDropNetRaw(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{"--drop-net-raw=false": "1", "--drop-net-raw": "0"} {
		t.Run(option, func(t *testing.T) {
			d := start(t, option)
			d.apply(scriptJob("look", `sed -n 's/^CapEff:\t*/0x/p' /proc/self/status | (read caps; echo $(( caps >> 13 & 1 )))`))
			d.complete("look")
			if got := d.jobctl("logs", "jobs/look"); got != want+"\n" {
				t.Errorf("CAP_NET_RAW: %q, want %s", got, want)
			}
		})
	}
}

// Users of a pod may bind all ports and send pings, as in a cluster, unless the pod says otherwise; those of a pod with
// users of its own may not ping.
func TestAnyUserMayBindAllPortsAndPing(t *testing.T) {
	t.Parallel()
	const manifest = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  restartPolicy: Never
  hostUsers: %t
  securityContext: {runAsUser: 1000, sysctls: [%s]}
  containers:
  - name: c
    image: busybox:1.36
    command: [sh, -c, "httpd -p 127.0.0.1:80 2>/dev/null && echo binds; read first last </proc/sys/net/ipv4/ping_group_range; test $first = 0 && echo all ping; true"]
`
	for _, mode := range []string{"auto", "none"} {
		t.Run("network "+mode, func(t *testing.T) {
			flags := []string{"--drop-net-raw"}
			if mode != "auto" {
				flags = append(flags, "--network", mode)
			}
			eachRuntime(t, func(t *testing.T, d *daemon) {
				for name, c := range map[string]struct {
					hostUsers     bool
					sysctls, want string
				}{
					"plain": {true, "", "binds\nall ping\n"},
					"says":  {true, `{name: net.ipv4.ip_unprivileged_port_start, value: "1024"}`, "all ping\n"},
					"users": {false, "", "binds\n"},
				} {
					d.apply(fmt.Sprintf(manifest, name, c.hostUsers, c.sysctls))
					d.jobctl("wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/"+name, patiently)
					if got := d.jobctl("logs", name); got != c.want {
						t.Errorf("%s: %q, want %q", name, got, c.want)
					}
				}
			}, flags...)
		})
	}
}

// scriptJob is a Job whose one pod runs a script.
func scriptJob(name, script string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q]}]
`, name, script)
}

func TestNetworkModes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{"none": "lo\n", "host": "same\n"} {
		t.Run(mode, func(t *testing.T) {
			d := start(t, "--network", mode)
			script := `ls /sys/class/net`
			if mode == "host" {
				own, err := os.Readlink("/proc/self/ns/net")
				if err != nil {
					t.Fatal(err)
				}
				script = fmt.Sprintf(`[ "$(readlink /proc/self/ns/net)" = "%s" ] && echo same`, own)
			}
			d.apply(fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: look}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "busybox:1.36", command: [sh, -c, %q]}]
`, script))
			d.complete("look")
			if got := d.jobctl("logs", "jobs/look"); !strings.HasSuffix(got, want) || mode == "none" && strings.Contains(got, "eth0") {
				t.Errorf("got %q, want %q", got, want)
			}
			if !strings.Contains(d.output.String(), "network     "+mode) {
				t.Errorf("the daemon said %s", d.output)
			}
		})
	}
}
