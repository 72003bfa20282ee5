package network

import (
	"fmt"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

const (
	// queriesSuffix makes the name of the nft table of boundQueries from that of the bridge.
	queriesSuffix = "-queries"
	nameserver    = 53
	// maxQueries is how many queries a second each pod may send over UDP to the name server, and burstOfQueries how many at once. A name outside
	// of the cluster costs ten: five names to try, of two types each.
	maxQueries, burstOfQueries = 2000, 4000
)

// boundQueries drops what a pod sends to the name server beyond its pace. All pods share what the kernel holds for the name server until it
// is read, so a few that send as fast as they can would have the queries of all others dropped.
func (b *bridge) boundQueries() error {
	conn, err := openNFT()
	if err != nil {
		return err
	}
	t := newTable(conn, nftables.TableFamilyIPv4, b.name+queriesSuffix)
	pods := &nftables.Set{
		Table: t.table, ID: 1, Name: "pods", KeyType: nftables.TypeIPAddr, Dynamic: true, Size: 1 << (32 - b.subnet.Bits()),
	}
	if err := conn.AddSet(pods, nil); err != nil {
		return fmt.Errorf("nft set %s: %w", pods.Name, err)
	}
	t.hook("raw", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)(
		interfaceIs(expr.MetaKeyIIFNAME, b.name),
		endpoint{netip.AddrPortFrom(b.address, nameserver), corev1.ProtocolUDP}.is(),
		[]expr.Any{
			&expr.Payload{DestRegister: smallRegister, Base: expr.PayloadBaseNetworkHeader, Offset: sourceOffset, Len: 4},
			&expr.Dynset{
				SrcRegKey: smallRegister, SetName: pods.Name, SetID: pods.ID, Operation: unix.NFT_DYNSET_OP_ADD,
				Exprs: []expr.Any{&expr.Limit{
					Type: expr.LimitTypePkts, Rate: maxQueries, Unit: expr.LimitTimeSecond, Burst: burstOfQueries, Over: true,
				}},
			},
		},
		verdict(expr.VerdictDrop),
	)
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("nft table %s: %w", t.table.Name, err)
	}
	return nil
}
