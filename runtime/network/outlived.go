package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// portDisabled is BR_STATE_DISABLED of linux/if_bridge.h.
const portDisabled = 0

// linger is how long the kernel may take to remove the link of a pod that has ended.
const linger = time.Second

// outlived are the links of pods that have ended, by their indexes on the host. The kernel removes a link with the namespace of its pod, soon
// after that, and for many pods at a time; we would take it as long for each. But the namespace stays as long as anybody has a socket of it,
// and a pod may give one to another pod, through a UNIX socket in a volume that both have. So a link is cut at once, since no NetworkPolicy
// applies to the address any more, and is removed if it is still there later: a bridge takes no more than BridgePorts.
type outlived struct {
	links []int         // guarded by Network.mu
	more  chan struct{} // has a value when there are some
}

// cutOff lets nothing through the link of a pod any more, which cannot undo that.
func (n *Network) cutOff(pod netip.Addr) error {
	link, err := n.bridge.host.index(linkName(pod))
	if err == nil {
		err = n.bridge.cut(link)
	}
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("link %s: %w", linkName(pod), err)
	}
	n.remember(link)
	return nil
}

func (n *Network) remember(links ...int) {
	n.mu.Lock()
	n.outlived.links = append(n.outlived.links, links...)
	n.mu.Unlock()
	select {
	case n.outlived.more <- struct{}{}:
	default:
	}
}

// findOutlived cuts the links that pods of an earlier run have left.
func (n *Network) findOutlived() error {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return fmt.Errorf("links of pods: %w", err)
	}
	owned := map[string]bool{}
	for address := range n.addresses.owner {
		owned[linkName(address)] = true
	}
	for _, l := range links {
		at := l.Attrs()
		if at.MasterIndex != n.bridge.index || owned[at.Name] || l.Type() != "veth" || !strings.HasPrefix(at.Name, n.bridge.linkPrefix()) {
			continue
		}
		if err := n.bridge.cut(at.Index); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("link %s: %w", at.Name, err)
		}
		n.remember(at.Index)
	}
	return nil
}

// RemoveOutlived removes links of pods that have ended, if the kernel does not, until the context ends.
func (n *Network) RemoveOutlived(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-n.outlived.more:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(linger):
		}
		n.removeOutlived()
	}
}

func (n *Network) removeOutlived() {
	n.mu.Lock()
	links := n.outlived.links
	n.outlived.links = nil
	n.mu.Unlock()
	for _, link := range links {
		if err := n.bridge.removeLink(link); err != nil {
			n.logger.Warn("cannot remove the link of a pod that has ended", "bridge", n.bridge.name, "index", link, "error", err)
		}
	}
}

// cut lets nothing through a link any more. That is soon done, which a removal is not. A link that is on no bridge any more is removed.
func (b *bridge) cut(link int) error {
	message := linkMessage(link)
	message.Family = unix.AF_BRIDGE // otherwise the kernel tells the bridge of a change, which enables the port again
	port := nl.NewRtAttr(unix.IFLA_PROTINFO|unix.NLA_F_NESTED, nil)
	port.AddRtAttr(nl.IFLA_BRPORT_STATE, nl.Uint8Attr(portDisabled))
	err := b.host.do(newChange("cut", unix.RTM_SETLINK, 0, message, port))
	if err != nil && !errors.Is(err, unix.ENODEV) {
		err = b.removeLink(link)
	}
	return err
}

// removeLink removes a link unless it is gone. No other link has its index meanwhile: the kernel counts on.
func (b *bridge) removeLink(link int) error {
	err := b.host.do(newChange("remove", unix.RTM_DELLINK, 0, linkMessage(link)))
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	return err
}

func linkMessage(index int) *nl.IfInfomsg {
	message := nl.NewIfInfomsg(unix.AF_UNSPEC)
	message.Index = int32(index)
	return message
}
