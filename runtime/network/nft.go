package network

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	mdlayher "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

const (
	// kernelTimeout bounds the wait for an answer of the kernel, which usually comes within milliseconds.
	kernelTimeout = 30 * time.Second
	// nftBuffer holds a transaction as a whole: every port of the host takes some 60 bytes.
	nftBuffer = 32 << 20
	// elementsAtOnce is how many elements of a set one message carries: its lengths have 16 bits.
	elementsAtOnce = 500

	// From linux/netfilter/nf_conntrack_common.h.
	stateEstablished = 1 << 1
	stateRelated     = 1 << 2
	statusDNAT       = 1 << 5

	// From linux/netfilter/nf_tables.h: the first of the registers that have four bytes.
	smallRegister = unix.NFT_REG32_00

	// Offsets in the IPv4 header.
	sourceOffset      = 12
	destinationOffset = 16
	// And in those of TCP, UDP and SCTP alike.
	portOffset = 2
)

// openNFT returns a connection that collects the commands of a transaction.
func openNFT() (*nftables.Conn, error) {
	conn, err := nftables.New(nftables.WithSockOptions(func(c *mdlayher.Conn) error {
		if err := c.SetWriteBuffer(nftBuffer); err != nil {
			return err
		}
		// The kernel acknowledges each of its messages before the first answer is read.
		if err := c.SetReadBuffer(nftBuffer); err != nil {
			return err
		}
		return c.SetDeadline(time.Now().Add(kernelTimeout))
	}))
	if err != nil {
		return nil, fmt.Errorf("nft: %w", err)
	}
	return conn, nil
}

// table is an nft table that a transaction fills.
type table struct {
	conn  *nftables.Conn
	table *nftables.Table
}

// newTable replaces a table with an empty one.
func newTable(conn *nftables.Conn, family nftables.TableFamily, name string) *table {
	t := &nftables.Table{Family: family, Name: name}
	conn.AddTable(t) // so that the deletion does not fail
	conn.DelTable(t)
	conn.AddTable(t)
	return &table{conn, t}
}

// chain adds a chain, and returns a function that adds rules to it.
func (t *table) chain(c *nftables.Chain) func(...[]expr.Any) {
	c.Table = t.table
	t.conn.AddChain(c)
	return t.rules(c.Name)
}

// rules returns a function that adds rules to a chain.
func (t *table) rules(chain string) func(...[]expr.Any) {
	c := &nftables.Chain{Table: t.table, Name: chain}
	return func(parts ...[]expr.Any) {
		t.conn.AddRule(&nftables.Rule{Table: t.table, Chain: c, Exprs: slices.Concat(parts...)})
	}
}

// hook adds a chain that the kernel calls at one of its hooks.
func (t *table) hook(
	name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority,
) func(...[]expr.Any) {
	return t.chain(&nftables.Chain{Name: name, Type: kind, Hooknum: hook, Priority: priority})
}

// fill adds a set with its elements. Of several with the same key, the first counts.
func (t *table) fill(set *nftables.Set, elements []nftables.SetElement) error {
	if err := t.conn.AddSet(set, nil); err != nil {
		return fmt.Errorf("nft set %s: %w", set.Name, err)
	}
	seen := make(map[string]bool, len(elements))
	elements = slices.DeleteFunc(elements, func(e nftables.SetElement) bool {
		known := seen[string(e.Key)]
		seen[string(e.Key)] = true
		return known
	})
	for some := range slices.Chunk(elements, elementsAtOnce) {
		if err := t.conn.SetAddElements(set, some); err != nil {
			return fmt.Errorf("nft set %s: %w", set.Name, err)
		}
	}
	return nil
}

func interfaceIs(key expr.MetaKey, name string) []expr.Any {
	return compareInterface(key, expr.CmpOpEq, name)
}

func interfaceIsNot(key expr.MetaKey, name string) []expr.Any {
	return compareInterface(key, expr.CmpOpNeq, name)
}

func compareInterface(key expr.MetaKey, op expr.CmpOp, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: op, Register: 1, Data: padded}}
}

// interfaceBegins returns the expressions that match interfaces by the beginning of their names.
func interfaceBegins(key expr.MetaKey, prefix string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte(prefix)}}
}

func verdict(kind expr.VerdictKind) []expr.Any { return []expr.Any{&expr.Verdict{Kind: kind}} }

// droppingForward returns the name of a chain of the host's firewall that drops what no rule of its own accepts, and
// which no rule of ours can override. Empty: none was found.
func droppingForward() string {
	conn, err := openNFT()
	if err != nil {
		return ""
	}
	chains, err := conn.ListChains()
	if err != nil {
		return ""
	}
	for _, c := range chains {
		if c.Hooknum != nil && *c.Hooknum == *nftables.ChainHookForward && c.Policy != nil &&
			*c.Policy == nftables.ChainPolicyDrop &&
			(c.Table.Family == nftables.TableFamilyIPv4 || c.Table.Family == nftables.TableFamilyINet) {
			return c.Table.Name + " " + c.Name
		}
	}
	return ""
}
