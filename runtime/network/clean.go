package network

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime"
)

// Clean removes the bridge of a root, the links on it and the nft tables. Whoever ends the pods' processes removes
// their namespaces. It may be repeated, and does nothing if nothing was made.
func Clean(root string) error {
	if err := remove(runtime.RootName(root)); err != nil {
		return fmt.Errorf("clean: network: %w", err)
	}
	return nil
}

func remove(name string) error {
	bridge, err := netlink.LinkByName(name)
	gone := errors.As(err, new(netlink.LinkNotFoundError))
	if err != nil && !gone {
		return err
	}
	// Without the privilege to create a table, none can have been made.
	if err := removeTables(name); err != nil && !(gone && errors.Is(err, unix.EPERM)) {
		return err
	}
	if gone {
		return nil
	}
	links, err := dump(netlink.LinkList)
	if err != nil {
		return err
	}
	for _, l := range links {
		if l.Attrs().MasterIndex != bridge.Attrs().Index || l.Type() != "veth" {
			continue
		}
		if err := netlink.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			return fmt.Errorf("remove link %s: %w", l.Attrs().Name, err)
		}
	}
	if err := netlink.LinkDel(bridge); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	return nil
}

func removeTables(name string) error {
	return errors.Join(removeTable(name, nftables.TableFamilyIPv4),
		removeTable(name+servicesSuffix, nftables.TableFamilyIPv4), removeTable(name+queriesSuffix, nftables.TableFamilyIPv4),
		removeTable(name+masqueradeSuffix, nftables.TableFamilyIPv4),
		removeTable(name, nftables.TableFamilyBridge),
		removePolicies(name))
}

func removeTable(name string, family nftables.TableFamily) error {
	conn, err := openNFT()
	if err != nil {
		return err
	}
	// A transaction that fails makes the kernel wait for all processors, for 15 ms, so it is looked first.
	if _, err = conn.ListTableOfFamily(name, family); err == nil {
		conn.DelTable(&nftables.Table{Family: family, Name: name})
		err = conn.Flush()
	}
	switch {
	case errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EPROTONOSUPPORT):
		// A kernel without nf_tables has none of ours.
	case err != nil:
		return fmt.Errorf("remove nft table %s: %w", name, err)
	}
	return nil
}
