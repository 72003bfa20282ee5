package names

import (
	"fmt"
	"slices"
	"time"

	"github.com/jobd/jobd/runtime/network"
)

// What the kernel holds for Services is nobody's, so it is bounded: a port counts one, and so does each of its endpoints, for
// each port; with session affinity three, since that takes rules. The API bounds how many ports there are; pods and
// EndpointSlices come and go.
const (
	// roomOfNamespace is how much a namespace has.
	roomOfNamespace = 10_000
	// roomInAll is how much all have together: many namespaces have less each.
	roomInAll = 200_000

	faithfulEndpoint = 3
)

// leading is a Service with a virtual address, and where it leads.
type leading struct {
	serviceRef
	created time.Time
	ports   []network.ServicePort
}

// leftOut says what of a Service its namespace has no room for.
type leftOut struct {
	serviceRef
	why string
}

// fit leaves out what a namespace has no room for, and says of which Services: endpoints of those that were created last, the
// same number for each port. Those without room even for their ports lead nowhere.
func fit(services []leading, room int) (left []leftOut) {
	slices.SortFunc(services, func(a, b leading) int {
		if order := a.created.Compare(b.created); order != 0 {
			return order
		}
		return compareRefs(a.serviceRef, b.serviceRef)
	})
	all := room
	for i := range services {
		s := &services[i]
		if room < len(s.ports) {
			left = append(left, leftOut{s.serviceRef, fmt.Sprintf("none of its %d ports works: the Services of a namespace have room for "+
				"%d ports and endpoints, an endpoint counted once for each port, and older ones come first", len(s.ports), all)})
			s.ports = nil
			continue
		}
		room -= len(s.ports)
		most, cut := room/max(1, len(s.ports)), false
		for k := range s.ports {
			p := &s.ports[k]
			each := 1
			if p.Affinity > 0 {
				each = faithfulEndpoint
			}
			if some := most / each; len(p.Endpoints) > some {
				cut = true
				p.Endpoints = p.Endpoints[:some:some]
			}
			room -= each * len(p.Endpoints)
		}
		if cut {
			left = append(left, leftOut{s.serviceRef, fmt.Sprintf("it leads to no more than %d of its endpoints: the Services of a namespace "+
				"have room for %d ports and endpoints, an endpoint counted once for each port", len(s.ports[0].Endpoints), all)})
		}
	}
	return left
}
