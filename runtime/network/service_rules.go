package network

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// serviceRules is what the nft table of Services holds, apart from the chains that the kernel calls, which do not change.
//
// A port takes a chain of one rule and an element for each of its endpoints; there are no sets of its own, since each takes
// the kernel some kilobytes, and looking for one of many takes it long. A port with session affinity takes a rule and a
// chain of two for each endpoint, so that nothing that is looked up is remembered or looked up again: of such rules nft of
// Debian 12 (1.0.6) makes an assertion that fails, which ends `nft list ruleset`.
type serviceRules struct {
	// elements are those of the sets, by the names of the sets and by their keys: the name of a chain, the data, or nothing.
	elements map[string]map[string]string
	// chains by name. The name of one follows from its rules, which never change under the same name.
	chains map[string]serviceChain
	// clients are the names of the sets of clients.
	clients map[string]bool
}

// serviceChain adds the rules of a chain.
type serviceChain func(s *serviceSets, chain func(...[]expr.Any))

// Names of sets of Services, apart from those of clients.
const (
	setVirtual, setExternal, setNodePorts = "virtual", "external", "node-ports" // from destinations to chains of ports
	setOwn, setOwnPorts                   = "own", "own-ports"                  // destinations that no Service takes over
	setRefused, setRefusedPorts           = "refused", "refused-ports"          // destinations that lead nowhere

	setEndpoints = "endpoints" // from ports and numbers to endpoints
	setChoices   = "choices"   // from ports with affinity and numbers to chains of endpoints

	// prefixClients is how the names of the sets of clients begin, which outlive the daemon: they are the only record.
	prefixClients = "affinity-"
)

// compileServices returns the rules for ports and for the endpoints of the host that no Service takes over. Of several ports
// with the same destination, the first counts.
func compileServices(ports []ServicePort, own []endpoint) *serviceRules {
	r := &serviceRules{
		elements: map[string]map[string]string{}, chains: map[string]serviceChain{}, clients: map[string]bool{},
	}
	for _, e := range own {
		if e.Addr().IsUnspecified() {
			r.element(setOwnPorts, portKey(e.protocol, e.Port()), "")
		} else {
			r.element(setOwn, e.key(), "")
		}
	}
	ids := map[uint32]bool{}
	for _, p := range ports {
		id := portID(p.Name)
		for ids[id] {
			id++
		}
		ids[id] = true
		chain := ""
		switch {
		case len(p.Endpoints) == 0:
		case p.Affinity > 0:
			chain = r.faithful(p, id)
		default:
			chain = r.random(p, id)
		}
		lead := func(in, refused string, key []byte) {
			if chain == "" {
				in = refused
			}
			r.element(in, key, chain)
		}
		lead(setVirtual, setRefused, endpoint{p.At, p.Protocol}.key())
		for _, a := range p.External {
			lead(setExternal, setRefused, endpoint{netip.AddrPortFrom(a, p.At.Port()), p.Protocol}.key())
		}
		if p.NodePort != 0 {
			lead(setNodePorts, setRefusedPorts, portKey(p.Protocol, p.NodePort))
		}
	}
	return r
}

// portID returns a number that follows from the name of a port.
func portID(name string) uint32 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint32(sum[:])
}

func (r *serviceRules) element(set string, key []byte, data string) {
	in := r.elements[set]
	if in == nil {
		in = map[string]string{}
		r.elements[set] = in
	}
	if _, known := in[string(key)]; !known {
		in[string(key)] = data
	}
}

// numberKey returns the key of one of the numbers of a port.
func numberKey(id uint32, number int) []byte {
	return slices.Concat(binaryutil.NativeEndian.PutUint32(id), binaryutil.NativeEndian.PutUint32(uint32(number)))
}

// loadNumber loads the key of a random number below n.
func loadNumber(id uint32, n int) []expr.Any {
	return []expr.Any{
		&expr.Immediate{Register: smallRegister, Data: binaryutil.NativeEndian.PutUint32(id)},
		&expr.Numgen{Register: smallRegister + 1, Modulus: uint32(n), Type: unix.NFT_NG_RANDOM},
	}
}

func translateFrom(register uint32) []expr.Any {
	return []expr.Any{&expr.NAT{
		Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: register, RegProtoMin: register + 1,
	}}
}

// random adds the chain of a port that leads each connection to a random endpoint, and returns its name.
func (r *serviceRules) random(p ServicePort, id uint32) string {
	n := len(p.Endpoints)
	for i, e := range p.Endpoints {
		r.element(setEndpoints, numberKey(id, i), string(addressAndPort(e)))
	}
	name := fmt.Sprintf("port-%08x-%d", id, n)
	r.chains[name] = func(s *serviceSets, chain func(...[]expr.Any)) {
		chain(loadNumber(id, n), s.find(setEndpoints, smallRegister), translateFrom(smallRegister))
	}
	return name
}

// faithful adds the chains of a port that leads a client to the endpoint that it had before, if that is still one, and
// returns the name of the first.
func (r *serviceRules) faithful(p ServicePort, id uint32) string {
	clients := prefixClients + digest(p.Namespace)
	r.clients[clients] = true
	n := len(p.Endpoints)
	var all []string
	for i, e := range p.Endpoints {
		name := "endpoint-" + digest(fmt.Sprint(id, e, p.Affinity, clients))
		r.element(setChoices, numberKey(id, i), name)
		r.chains[name] = func(s *serviceSets, chain func(...[]expr.Any)) {
			load := loadClient(id, e)
			chain(load, s.note(clients, p.Affinity), translateFrom(toEndpoint))
			chain(load, translateFrom(toEndpoint)) // no more clients can be remembered
		}
		all = append(all, e.String())
	}
	name := "port-" + digest(fmt.Sprint(id, p.Affinity, clients), strings.Join(all, " "))
	r.chains[name] = func(s *serviceSets, chain func(...[]expr.Any)) {
		for _, e := range p.Endpoints {
			chain(loadClient(id, e), s.find(clients, smallRegister), s.note(clients, p.Affinity), translateFrom(toEndpoint))
		}
		chain(loadNumber(id, n), s.find(setChoices, smallRegister))
	}
	return name
}

// toEndpoint is the register in which loadClient leaves the endpoint.
const toEndpoint = smallRegister + 2

// loadClient loads the key of a client of a port that has a certain endpoint.
func loadClient(id uint32, e netip.AddrPort) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4},
		&expr.Immediate{Register: smallRegister + 1, Data: binaryutil.NativeEndian.PutUint32(id)},
		&expr.Immediate{Register: toEndpoint, Data: e.Addr().AsSlice()},
		&expr.Immediate{Register: toEndpoint + 1, Data: binaryutil.BigEndian.PutUint16(e.Port())},
	}
}

// digest returns a name that follows from some words.
func digest(words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\n")))
	return hex.EncodeToString(sum[:10])
}

// serviceSets are the sets of the table, by name.
type serviceSets struct {
	table *nftables.Table
	all   map[string]*nftables.Set
}

func newServiceSets(t *nftables.Table) *serviceSets {
	at := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService)
	anywhere := nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService)
	number := nftables.MustConcatSetType(nftables.TypeMark, nftables.TypeMark)
	to := nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetService)
	s := &serviceSets{t, map[string]*nftables.Set{}}
	for name, key := range map[string]nftables.SetDatatype{
		setVirtual: at, setExternal: at, setNodePorts: anywhere, setChoices: number,
	} {
		s.all[name] = &nftables.Set{Table: t, Name: name, KeyType: key, DataType: nftables.TypeVerdict, IsMap: true}
	}
	for name, key := range map[string]nftables.SetDatatype{
		setOwn: at, setOwnPorts: anywhere, setRefused: at, setRefusedPorts: anywhere,
	} {
		s.all[name] = &nftables.Set{Table: t, Name: name, KeyType: key}
	}
	s.all[setEndpoints] = &nftables.Set{Table: t, Name: setEndpoints, KeyType: number, DataType: to, IsMap: true}
	return s
}

// clients adds a set of clients. It has no size: so the kernel takes no memory for it in advance, and bounds it itself.
func (s *serviceSets) clients(name string) *nftables.Set {
	s.all[name] = &nftables.Set{
		Table: s.table, Name: name, Dynamic: true, HasTimeout: true, KeyType: nftables.MustConcatSetType(
			nftables.TypeIPAddr, nftables.TypeMark, nftables.TypeIPAddr, nftables.TypeInetService),
	}
	return s.all[name]
}

// find returns the expression that looks a key up, and lets the data, if any, take its place.
func (s *serviceSets) find(name string, register uint32) []expr.Any {
	set := s.all[name]
	found := &expr.Lookup{SourceRegister: register, SetName: set.Name, SetID: set.ID}
	if set.IsMap {
		found.DestRegister, found.IsDestRegSet = register, true
		if set.DataType == nftables.TypeVerdict {
			found.DestRegister = unix.NFT_REG_VERDICT
		}
	}
	return []expr.Any{found}
}

// note returns the expression that remembers a client for some time.
func (s *serviceSets) note(clients string, life time.Duration) []expr.Any {
	set := s.all[clients]
	return []expr.Any{&expr.Dynset{
		SrcRegKey: smallRegister, SetName: set.Name, SetID: set.ID, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: life,
	}}
}

// elementsOf returns elements of a set as nft wants them.
func (s *serviceSets) elementsOf(name string, elements map[string]string) (out []nftables.SetElement) {
	set := s.all[name]
	for key, data := range elements {
		e := nftables.SetElement{Key: []byte(key)}
		switch {
		case set.IsMap && set.DataType == nftables.TypeVerdict:
			e.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: data}
		case set.IsMap:
			e.Val = []byte(data)
		}
		out = append(out, e)
	}
	return out
}

// writeServices turns the nft table of Services from what it was, nil if that is not known, to what it is to be, in one
// transaction:
//
//   - a connection of a pod or of the host to a virtual address leads to one of the endpoints, and so does one from
//     anywhere to an external address or a port of the host;
//   - what is the daemon's own leads there, whatever port or external address a Service has;
//   - from outside, no virtual address can be reached, whatever routes others set up;
//   - what leads nowhere is refused.
//
// The sets of clients stay while their namespace has a port with affinity, since they are the only record of them.
func (b *bridge) writeServices(was, now *serviceRules, addresses netip.Prefix, local [][]expr.Any) error {
	conn, err := openNFT()
	if err != nil {
		return err
	}
	t := &table{conn, &nftables.Table{Family: nftables.TableFamilyIPv4, Name: b.name + servicesSuffix}}
	conn.AddTable(t.table)
	begin := was == nil
	if begin {
		if was, err = t.emptyServices(); err != nil {
			return err
		}
	}
	sets := newServiceSets(t.table)
	if begin {
		for _, set := range sets.all {
			if err := conn.AddSet(set, nil); err != nil {
				return err
			}
		}
	}
	for name := range now.clients {
		if set := sets.clients(name); !was.clients[name] {
			if err := conn.AddSet(set, nil); err != nil {
				return err
			}
		}
	}
	// Chains first, since rules of some and elements lead to others.
	for name := range now.chains {
		if _, there := was.chains[name]; !there {
			conn.AddChain(&nftables.Chain{Table: t.table, Name: name})
		}
	}
	for name, set := range sets.all {
		if err := t.replaceElements(sets, set, was.elements[name], now.elements[name]); err != nil {
			return err
		}
	}
	for name, rules := range now.chains {
		if _, there := was.chains[name]; !there {
			rules(sets, t.rules(name))
		}
	}
	if begin {
		b.serviceHooks(t, sets, addresses, local)
	}
	t.removeUnused(was, now)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nft table %s: %w", t.table.Name, err)
	}
	return nil
}

// replaceElements adds elements of a set, and removes those that are gone or have other data.
func (t *table) replaceElements(s *serviceSets, set *nftables.Set, was, now map[string]string) error {
	var gone []nftables.SetElement
	for key, data := range was {
		if is, there := now[key]; !there || is != data {
			gone = append(gone, nftables.SetElement{Key: []byte(key)})
		}
	}
	added := map[string]string{}
	for key, data := range now {
		if had, there := was[key]; !there || had != data {
			added[key] = data
		}
	}
	for some := range slices.Chunk(gone, elementsAtOnce) {
		if err := t.conn.SetDeleteElements(set, some); err != nil {
			return fmt.Errorf("nft set %s: %w", set.Name, err)
		}
	}
	for some := range slices.Chunk(s.elementsOf(set.Name, added), elementsAtOnce) {
		if err := t.conn.SetAddElements(set, some); err != nil {
			return fmt.Errorf("nft set %s: %w", set.Name, err)
		}
	}
	return nil
}

// removeUnused removes the chains and sets of clients that are not needed any more.
func (t *table) removeUnused(was, now *serviceRules) {
	var gone []string
	for name := range was.chains {
		if _, there := now.chains[name]; !there {
			gone = append(gone, name)
			t.conn.FlushChain(&nftables.Chain{Table: t.table, Name: name})
		}
	}
	for _, name := range gone {
		t.conn.DelChain(&nftables.Chain{Table: t.table, Name: name})
	}
	for name := range was.clients {
		if !now.clients[name] {
			t.conn.DelSet(&nftables.Set{Table: t.table, Name: name})
		}
	}
}

// emptyServices removes what another run has left in the table, but for the sets of clients, and returns what is there
// then.
func (t *table) emptyServices() (*serviceRules, error) {
	left := &serviceRules{clients: map[string]bool{}}
	conn, err := openNFT()
	if err != nil {
		return nil, err
	}
	if there, err := hasTable(conn, t.table.Name); err != nil || !there {
		return left, err
	}
	chains, err := conn.ListChainsOfTableFamily(t.table.Family)
	if err != nil {
		return nil, fmt.Errorf("nft chains: %w", err)
	}
	chains = slices.DeleteFunc(chains, func(c *nftables.Chain) bool { return c.Table.Name != t.table.Name })
	for _, c := range chains {
		t.conn.FlushChain(&nftables.Chain{Table: t.table, Name: c.Name})
	}
	sets, err := conn.GetSets(t.table)
	if err != nil {
		return nil, fmt.Errorf("nft sets: %w", err)
	}
	for _, set := range sets {
		if strings.HasPrefix(set.Name, prefixClients) {
			left.clients[set.Name] = true
		} else {
			t.conn.DelSet(&nftables.Set{Table: t.table, Name: set.Name})
		}
	}
	for _, c := range chains {
		if c.Hooknum == nil { // the others are always the same
			t.conn.DelChain(&nftables.Chain{Table: t.table, Name: c.Name})
		}
	}
	return left, nil
}

// serviceHooks writes the chains that the kernel calls. local are the expressions of rules that match every address of the host.
func (b *bridge) serviceHooks(t *table, s *serviceSets, addresses netip.Prefix, local [][]expr.Any) {
	portAt := func(register uint32) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register},
			&expr.Payload{
				DestRegister: register + 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2,
			},
		}
	}
	address := &expr.Payload{
		DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: destinationOffset, Len: 4,
	}
	byAddress := append([]expr.Any{address}, portAt(smallRegister+1)...)
	byPort := portAt(smallRegister)
	lookup := func(name string) []expr.Any { return s.find(name, smallRegister) }
	fromPods := interfaceIs(expr.MetaKeyIIFNAME, b.name)

	nat := nftables.ChainPriorityRef(afterHostPorts)
	prerouting := t.hook("prerouting", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nat)
	prerouting(fromPods, byAddress, lookup(setVirtual))
	output := t.hook("output", nftables.ChainTypeNAT, nftables.ChainHookOutput, nat)
	output(byAddress, lookup(setVirtual))
	for _, chain := range []func(...[]expr.Any){prerouting, output} {
		chain(byAddress, lookup(setOwn), verdict(expr.VerdictAccept))
		for _, here := range local {
			chain(here, byPort, lookup(setOwnPorts), verdict(expr.VerdictAccept))
		}
		chain(byAddress, lookup(setExternal))
		for _, here := range local {
			chain(here, byPort, lookup(setNodePorts))
		}
	}

	refuse := t.chain(&nftables.Chain{Name: "refuse"})
	refuse([]expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_TCP}},
		&expr.Reject{Type: unix.NFT_REJECT_TCP_RST},
	})
	refuse([]expr.Any{&expr.Reject{Type: unix.NFT_REJECT_ICMP_UNREACH, Code: icmpPortUnreachable}})
	toRefuse := []expr.Any{&expr.Verdict{Kind: expr.VerdictGoto, Chain: "refuse"}}
	for name, at := range map[string]*nftables.ChainHook{
		"refuse-forwarded": nftables.ChainHookForward, "refuse-sent": nftables.ChainHookOutput,
		"refuse-received": nftables.ChainHookInput,
	} {
		chain := t.hook(name, nftables.ChainTypeFilter, at, nftables.ChainPriorityFilter)
		if at == nftables.ChainHookOutput {
			chain(within(destinationOffset, addresses), toRefuse)
		} else {
			chain(fromPods, within(destinationOffset, addresses), toRefuse)
		}
		chain(byAddress, lookup(setRefused), toRefuse)
		if at == nftables.ChainHookInput {
			chain(byPort, lookup(setRefusedPorts), toRefuse)
		}
	}
}
