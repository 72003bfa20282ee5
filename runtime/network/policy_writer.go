package network

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	// From the header of TCP: where the flags are, and some of them.
	tcpFlagsOffset         = 13
	tcpFin, tcpSyn, tcpRst = 1 << 0, 1 << 1, 1 << 2
	tcpAck                 = 1 << 4

	icmpRedirect = 5 // RFC 792
)

// policyWriter collects the commands that turn the tables of some policies into those of others.
type policyWriter struct {
	*table
	frames   *table
	bridge   *bridge
	api      uint16
	now, was *Policies

	// ingress and egress lead from the addresses of isolated pods to the chains of their lists; own are pairs of the same
	// address, and before those of pods from before the tables.
	ingress, egress, own, before *nftables.Set
	// receivers and senders are isolated pods, as the bridge knows them.
	receivers, senders *nftables.Set
}

// openSets describes the sets that there always are.
func (w *policyWriter) openSets() {
	verdicts := func(name string) *nftables.Set {
		return &nftables.Set{
			Table: w.table.table, Name: name, KeyType: nftables.TypeIPAddr, DataType: nftables.TypeVerdict, IsMap: true,
		}
	}
	w.ingress, w.egress = verdicts("ingress"), verdicts("egress")
	w.own = &nftables.Set{
		Table: w.table.table, Name: "own", KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr),
	}
	w.before = &nftables.Set{Table: w.table.table, Name: "before", KeyType: nftables.TypeIPAddr}
	w.receivers = &nftables.Set{Table: w.frames.table, Name: "receivers", KeyType: nftables.TypeIFName}
	w.senders = &nftables.Set{Table: w.frames.table, Name: "senders", KeyType: nftables.TypeIPAddr}
}

// untracked returns the addresses of the pods whose connections may be older than the tables: all that are there, if
// there are no tables yet, and otherwise those that the tables have.
func (w *policyWriter) untracked(owner map[netip.Addr]string) (map[netip.Addr]string, error) {
	out := map[netip.Addr]string{}
	conn, err := openNFT()
	if err != nil {
		return nil, err
	}
	known, err := hasTable(conn, w.table.table.Name)
	if err != nil {
		return nil, err
	}
	if !known {
		maps.Copy(out, owner)
		return out, nil
	}
	elements, err := conn.GetSetElements(w.before)
	if err != nil {
		return nil, fmt.Errorf("nft set %s: %w", w.before.Name, err)
	}
	for _, e := range elements {
		if at, ok := netip.AddrFromSlice(e.Key); ok && owner[at] != "" {
			out[at] = owner[at]
		}
	}
	return out, nil
}

// begin replaces both tables with new ones, in which no pod is isolated yet.
//
// The kernel tracks connections only of packets that it routes. So the bridge hands frames between pods to the host's IPv4,
// as if they were addressed to the gateway, and the same rules apply to traffic between pods as to traffic with others.
// Broadcasts and multicasts stay on the bridge: an isolated pod can neither send nor receive them.
//
// Policies decide about the first packet of a connection:
//
//   - packets of a connection that is already tracked pass;
//   - the first packet of a TCP connection is always checked, whatever is tracked, so that a pod that may only answer on a
//     connection cannot reuse its ports to open one itself;
//   - other packets to or from pods that are older than the tables belong to connections whose beginning the kernel has not
//     seen.
func (w *policyWriter) begin(before map[netip.Addr]string) error {
	w.table = newTable(w.conn, w.table.table.Family, w.table.table.Name)
	w.frames = newTable(w.conn, w.frames.table.Family, w.frames.table.Name)
	w.openSets()
	var old []nftables.SetElement
	for at := range before {
		old = append(old, nftables.SetElement{Key: at.AsSlice()})
	}
	for _, set := range []*nftables.Set{w.ingress, w.egress, w.own, w.receivers, w.senders} {
		if err := w.conn.AddSet(set, nil); err != nil {
			return err
		}
	}
	if err := w.fill(w.before, old); err != nil {
		return err
	}
	accept, drop := verdict(expr.VerdictAccept), verdict(expr.VerdictDrop)
	in, out := interfaceIs(expr.MetaKeyIIFNAME, w.bridge.name), interfaceIs(expr.MetaKeyOIFNAME, w.bridge.name)
	to := func(chain string) []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}} }
	address := func(register, offset uint32) expr.Any {
		return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 4}
	}
	find := func(set *nftables.Set, offsets ...uint32) (found []expr.Any) {
		for i, offset := range offsets {
			found = append(found, address(smallRegister+uint32(i), offset))
		}
		lookup := &expr.Lookup{SourceRegister: smallRegister, SetName: set.Name, SetID: set.ID}
		if set.IsMap {
			lookup.DestRegister, lookup.IsDestRegSet = unix.NFT_REG_VERDICT, true
		}
		return append(found, lookup)
	}
	established := conntrack(expr.CtKeySTATE, stateEstablished|stateRelated)

	check := w.chain(&nftables.Chain{Name: "check"})
	check(find(w.own, sourceOffset, destinationOffset), accept)
	check(find(w.egress, sourceOffset))
	check(find(w.ingress, destinationOffset))
	pods := w.chain(&nftables.Chain{Name: "pods"})
	pods(protocolIs(corev1.ProtocolTCP), beginsTCP(), to("check"))
	pods(established, accept)
	for _, end := range []uint32{sourceOffset, destinationOffset} {
		pods(in, out, protocolIs(corev1.ProtocolTCP), find(w.before, end), accept)
	}
	pods(to("check"))
	forward := w.hook("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	forward(in, to("pods"))
	forward(out, to("pods"))
	input := w.hook("input", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter)
	input(in, protocolIs(corev1.ProtocolTCP), beginsTCP(), find(w.egress, sourceOffset))
	input(in, established, accept)
	input(in, find(w.egress, sourceOffset))
	// The host would tell pods that they could reach each other without it.
	output := w.hook("output", nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter)
	output(out, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_ICMP}},
	}, holds(expr.PayloadBaseTransportHeader, 0, []byte{icmpRedirect}), drop)

	fromPods := slices.Concat(interfaceBegins(expr.MetaKeyIIFNAME, w.bridge.linkPrefix()), etherTypeIs(unix.ETH_P_IP))
	prerouting := w.frames.hook("prerouting", nftables.ChainTypeFilter, nftables.ChainHookPrerouting,
		nftables.ChainPriorityRef(afterGuard))
	prerouting(fromPods, toMany(0), []expr.Any{
		&expr.Immediate{Register: 1, Data: hardwareAddressOf(w.bridge.name)},
		&expr.Payload{OperationType: expr.PayloadWrite, SourceRegister: 1, Base: expr.PayloadBaseLLHeader, Len: 6},
		&expr.Immediate{Register: 1, Data: []byte{unix.PACKET_HOST}},
		&expr.Meta{Key: expr.MetaKeyPKTTYPE, Register: 1, SourceRegister: true},
	})
	between := w.frames.hook("forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
	// On a host where netfilter sees what is bridged, this is also the way to the endpoints of Services.
	between(fromPods, toMany(1), find(w.senders, sourceOffset), drop)
	between(fromPods, toMany(1), []expr.Any{
		&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: smallRegister},
		&expr.Lookup{SourceRegister: smallRegister, SetName: w.receivers.Name, SetID: w.receivers.ID},
	}, drop)
	return nil
}

// toMany returns the expressions that match frames to one receiver (0) or to many (1): the lowest bit of the first byte
// says so.
func toMany(bit byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseLLHeader, Len: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{1}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{bit}},
	}
}

func protocolIs(p corev1.Protocol) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{protocols[p]}},
	}
}

// beginsTCP returns the expressions that match the first packet of a connection of TCP.
func beginsTCP() []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: tcpFlagsOffset, Len: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 1, Mask: []byte{tcpFin | tcpSyn | tcpRst | tcpAck}, Xor: []byte{0},
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{tcpSyn}},
	}
}

// write adds what is new, changes what pods are in, and removes what no pod needs any more. It returns the names of the
// sets that there are afterwards, and takes those that there are.
func (w *policyWriter) write(sets map[string]bool) (map[string]bool, error) {
	chains, had := w.used(w.now), w.used(w.was)
	wanted := map[string]bool{}
	for name, use := range chains {
		list := w.now.Lists[use.list]
		for _, a := range list {
			for _, set := range w.setsOf(a) {
				if wanted[set.Name] {
					continue
				}
				wanted[set.Name] = true
				if sets[set.Name] {
					continue
				}
				if err := w.newSet(set, a); err != nil {
					return nil, err
				}
			}
		}
		if _, ok := had[name]; !ok {
			w.list(name, list, use.egress)
		}
	}
	for at, p := range w.was.Pods {
		if q, ok := w.now.Pods[at]; !ok || !p.equal(q) {
			if err := w.pod(at, p, q, sets, wanted); err != nil {
				return nil, err
			}
		}
	}
	for at, p := range w.now.Pods {
		if _, ok := w.was.Pods[at]; !ok {
			if err := w.pod(at, PolicyPod{}, p, sets, wanted); err != nil {
				return nil, err
			}
		}
	}
	for name := range had {
		if _, ok := chains[name]; !ok {
			w.conn.FlushChain(&nftables.Chain{Table: w.table.table, Name: name})
			w.conn.DelChain(&nftables.Chain{Table: w.table.table, Name: name})
		}
	}
	for name := range sets {
		if !wanted[name] {
			w.conn.DelSet(&nftables.Set{Table: w.table.table, Name: name})
		}
	}
	return wanted, nil
}

// use is how a list is used: for what pods receive, or for what they send.
type use struct {
	list   string
	egress bool
}

// chain returns the name of the nft chain of a list.
func (u use) chain() string {
	if u.egress {
		return "out-" + u.list
	}
	return "in-" + u.list
}

// used returns the lists that pods have, by the names of their chains.
func (w *policyWriter) used(p *Policies) map[string]use {
	chains := map[string]use{}
	for _, pod := range p.Pods {
		for _, u := range []use{{pod.Ingress, false}, {pod.Egress, true}} {
			if u.list != "" {
				chains[u.chain()] = u
			}
		}
	}
	return chains
}

// setsOf returns the sets with which the peers and the ports of an allowance are found.
func (w *policyWriter) setsOf(a Allowance) (sets []*nftables.Set) {
	switch {
	case a.Group != "":
		sets = append(sets, w.group(a.Group))
	case !a.Anyone:
		sum := sha256.New()
		for _, r := range a.Blocks {
			sum.Write(append(r.First.AsSlice(), r.Last.AsSlice()...))
		}
		sets = append(sets, &nftables.Set{
			Table: w.table.table, Name: "blocks-" + hex.EncodeToString(sum.Sum(nil)[:10]), KeyType: nftables.TypeIPAddr, Interval: true,
		})
	}
	if a.Name != "" {
		sets = append(sets, w.named(a.Name, a.Protocol))
	}
	return sets
}

// group returns the set of the addresses of a group.
func (w *policyWriter) group(name string) *nftables.Set {
	return &nftables.Set{Table: w.table.table, Name: "group-" + name, KeyType: nftables.TypeIPAddr}
}

// named returns the set of the ports of pods that have a name.
func (w *policyWriter) named(name string, protocol corev1.Protocol) *nftables.Set {
	return &nftables.Set{
		Table: w.table.table, Name: "port-" + name + "-" + strings.ToLower(string(protocol)),
		KeyType: nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService),
	}
}

// newSet adds a set of an allowance. Pods that are in it and are not changed were there before it was.
func (w *policyWriter) newSet(set *nftables.Set, a Allowance) error {
	var elements []nftables.SetElement
	if set.Interval {
		for _, r := range a.Blocks {
			elements = append(elements, nftables.SetElement{Key: r.First.AsSlice()})
			if end := r.Last.Next(); end.IsValid() {
				elements = append(elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
			}
		}
		return w.addElements(set, elements)
	}
	for at, p := range w.was.Pods {
		if q, ok := w.now.Pods[at]; ok && p.equal(q) {
			elements = append(elements, w.elements(at, p)[set.Name]...)
		}
	}
	return w.addElements(set, elements)
}

func (w *policyWriter) addElements(set *nftables.Set, elements []nftables.SetElement) error {
	if err := w.conn.AddSet(set, nil); err != nil {
		return fmt.Errorf("nft set %s: %w", set.Name, err)
	}
	return w.change(set, elements, nil)
}

// change adds elements to a set that is there, and removes others.
func (w *policyWriter) change(set *nftables.Set, add, remove []nftables.SetElement) error {
	for some := range slices.Chunk(remove, elementsAtOnce) {
		if err := w.conn.SetDeleteElements(set, some); err != nil {
			return fmt.Errorf("nft set %s: %w", set.Name, err)
		}
	}
	for some := range slices.Chunk(add, elementsAtOnce) {
		if err := w.conn.SetAddElements(set, some); err != nil {
			return fmt.Errorf("nft set %s: %w", set.Name, err)
		}
	}
	return nil
}

// elements returns what a pod is in the sets of groups and ports, by their names.
func (w *policyWriter) elements(at netip.Addr, p PolicyPod) map[string][]nftables.SetElement {
	out := map[string][]nftables.SetElement{}
	for _, g := range p.Groups {
		out[w.group(g).Name] = []nftables.SetElement{{Key: at.AsSlice()}}
	}
	for _, port := range p.Ports {
		name := w.named(port.Name, port.Protocol).Name
		key := endpoint{netip.AddrPortFrom(at, port.Number), port.Protocol}.key()
		out[name] = append(out[name], nftables.SetElement{Key: key})
	}
	return out
}

// pod changes what a pod is in the sets from one to another.
func (w *policyWriter) pod(at netip.Addr, was, now PolicyPod, sets, wanted map[string]bool) error {
	had, has := w.elements(at, was), w.elements(at, now)
	for name := range had {
		if sets[name] && wanted[name] {
			set := &nftables.Set{Table: w.table.table, Name: name}
			if err := w.change(set, nil, had[name]); err != nil {
				return err
			}
		}
	}
	for name := range has {
		if wanted[name] {
			set := &nftables.Set{Table: w.table.table, Name: name}
			if err := w.change(set, has[name], nil); err != nil {
				return err
			}
		}
	}
	key := at.AsSlice()
	for _, m := range []struct {
		set      *nftables.Set
		was, now use
	}{{w.ingress, use{was.Ingress, false}, use{now.Ingress, false}}, {w.egress, use{was.Egress, true}, use{now.Egress, true}}} {
		if m.was == m.now {
			continue
		}
		var add, remove []nftables.SetElement
		if m.was.list != "" {
			remove = append(remove, nftables.SetElement{Key: key})
		}
		if m.now.list != "" {
			add = append(add, nftables.SetElement{
				Key: key, VerdictData: &expr.Verdict{Kind: expr.VerdictJump, Chain: m.now.chain()},
			})
		}
		if err := w.change(m.set, add, remove); err != nil {
			return err
		}
	}
	link := make([]byte, unix.IFNAMSIZ)
	copy(link, linkName(at))
	for _, m := range []struct {
		set      *nftables.Set
		key      []byte
		was, now bool
	}{
		{w.own, slices.Concat(key, key), was.isolated(), now.isolated()},
		{w.receivers, link, was.Ingress != "", now.Ingress != ""},
		{w.senders, key, was.Egress != "", now.Egress != ""},
	} {
		element := []nftables.SetElement{{Key: m.key}}
		var err error
		switch {
		case m.now && !m.was:
			err = w.change(m.set, element, nil)
		case m.was && !m.now:
			err = w.change(m.set, nil, element)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// list adds the chain of a list. It returns to the chain that has led there if something is allowed, and else drops it.
func (w *policyWriter) list(name string, list []Allowance, egress bool) {
	peerOffset := uint32(sourceOffset)
	if egress {
		peerOffset = destinationOffset
	}
	chain := w.chain(&nftables.Chain{Name: name})
	allowed := verdict(expr.VerdictReturn)
	for _, a := range list {
		var peer []expr.Any
		if !a.Anyone {
			set := w.setsOf(a)[0]
			peer = []expr.Any{
				&expr.Payload{DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: peerOffset, Len: 4},
				&expr.Lookup{SourceRegister: smallRegister, SetName: set.Name, SetID: set.ID},
			}
		}
		chain(peer, w.port(a), allowed)
		// Pods find the API at a port that is translated to the one where the daemon listens.
		if egress && w.api != 0 && a.Protocol == corev1.ProtocolTCP && a.First <= APIPort && APIPort <= a.Last {
			chain(peer, endpoint{netip.AddrPortFrom(w.bridge.address, w.api), corev1.ProtocolTCP}.is(), allowed)
		}
	}
	chain(verdict(expr.VerdictDrop))
}

// port returns the expressions that match the protocol and the receiver's port of an allowance.
func (w *policyWriter) port(a Allowance) []expr.Any {
	switch {
	case a.Protocol == "":
		return nil
	case a.Name != "":
		set := w.named(a.Name, a.Protocol)
		return []expr.Any{
			&expr.Payload{
				DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4,
			},
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: smallRegister + 1},
			&expr.Payload{
				DestRegister: smallRegister + 2, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2,
			},
			&expr.Lookup{SourceRegister: smallRegister, SetName: set.Name, SetID: set.ID},
		}
	case a.First == 0:
		return protocolIs(a.Protocol)
	}
	return append(protocolIs(a.Protocol),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpGte, Register: 1, Data: binaryutil.BigEndian.PutUint16(a.First)},
		&expr.Cmp{Op: expr.CmpOpLte, Register: 1, Data: binaryutil.BigEndian.PutUint16(a.Last)},
	)
}
