package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/daemon/cards"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
)

const (
	gpu   corev1.ResourceName = "nvidia.com/gpu"
	share corev1.ResourceName = "nvidia.com/gpu.shared"
)

// board is a node whose cards are given away as package runtime/devices does: whole ones in their order, shares spread evenly.
type board struct {
	*Node
	replicas int64
	cards    []cards.Device
}

func newBoard(count int, replicas int64) *board {
	offered := requests.Resources{gpu: int64(count)}
	if replicas > 0 {
		offered[share] = int64(count) * replicas
	}
	b := &board{New(100, offered), replicas, make([]cards.Device, count)}
	for i := range b.cards {
		b.cards[i].Pods = map[types.UID]int64{}
	}
	b.tell()
	return b
}

func (b *board) tell() {
	d := cards.Devices{All: b.cards}
	if b.replicas > 0 {
		d.Shared, d.Replicas = share, b.replicas
	}
	b.SetDevices(map[corev1.ResourceName]cards.Devices{gpu: d})
}

// use says which cards others use.
func (b *board) use(cards ...int) {
	for i := range b.cards {
		b.cards[i].Used = slices.Contains(cards, i)
	}
	b.tell()
}

// give gives a pod that was bound what it requests.
func (b *board) give(uid types.UID) error {
	ask := b.bound[uid].shape.Ask
	for range ask[gpu] {
		i := slices.IndexFunc(b.cards, func(d cards.Device) bool { return len(d.Pods) == 0 && !d.Used })
		if i < 0 {
			return fmt.Errorf("%s finds no card", uid)
		}
		b.cards[i].Pods[uid] = 0
	}
	for range ask[share] {
		best := -1
		for i, d := range b.cards {
			shares, whole := b.Node.cards.On(&d)
			if d.Used || whole || shares == b.replicas {
				continue
			}
			if least, _ := b.Node.cards.On(&b.cards[max(best, 0)]); best < 0 || shares < least {
				best = i
			}
		}
		if best < 0 {
			return fmt.Errorf("%s finds no card to share", uid)
		}
		b.cards[best].Pods[uid]++
	}
	b.tell()
	return nil
}

func (b *board) gone(uid types.UID) {
	for i := range b.cards {
		delete(b.cards[i].Pods, uid)
	}
	b.Gone(uid)
	b.tell()
}

// settle binds what fits, and gives each pod what it requests once all of a round are bound, as workers do.
func (b *board) settle() (bound []types.UID, err error) {
	for {
		step, ok := b.Next(nil)
		if !ok {
			break
		}
		bound = append(bound, step.Bind...)
	}
	for _, uid := range bound {
		if err := b.give(uid); err != nil {
			return bound, err
		}
	}
	return bound, nil
}

func requesting(uid string, priority int32, ask requests.Resources) *Pod {
	p := &Pod{UID: types.UID(uid), Priority: priority}
	p.shape = newShape(ask, nil, PodOf(&corev1.Pod{}).shape.terms, false)
	return p
}

// TestDevices: which pods start, of those that request cards (g1) and shares (s1). "used=0" says that others use card 0, "a-" that a has
// ended. Behind each step stand those that start with it.
func TestDevices(t *testing.T) {
	for name, c := range map[string]struct {
		cards    int
		replicas int64
		steps    string
	}{
		"a card that others use is not given away": {1, 0, "used=0 a:g1 used= >a"},
		"one of two is": {2, 0, "used=0 a:g1 >a b:g1 a- >b"},
		"a pod that has what others use keeps it":    {2, 0, "a:g1 >a used=0 b:g1 >b c:g1 b- >c"},
		"and nobody gets it after it":                {1, 0, "a:g1 >a used=0 b:g1 a- used= >b"},
		"two share a card, and a whole one waits":    {1, 4, "a:s1 >a b:s1 >b c:g1 a- b- >c"},
		"as many share as may":                       {1, 2, "a:s1 >a b:s1 >b c:s1 a- >c"},
		"shares wait for a whole one":                {1, 4, "a:g1 >a b:s1 c:s1 a- >b,c"},
		"a whole one has room beside shares":         {2, 4, "a:s1 >a b:g1 >b c:g1 d:s1 >d"},
		"shares that are spread leave no whole card": {2, 4, "a:s1 >a b:s1 >b c:g1 a- >c"},
		"several at once find their cards":           {3, 2, "a:s1 >a b:s1 >b c:s1 >c d:s1 >d e:s1 >e f:s1 >f g:s1 h:g1 a- >g"},
		"nobody shares what others use":              {2, 2, "used=1 a:s1 >a b:s1 >b c:s1 used= >c"},
		"who shares what others use keeps it":        {1, 2, "a:s1 >a used=0 b:s1 used= >b"},
		"more than there is never starts":            {1, 0, "a:g2 b:g1 >b"},
		"a pod of both kinds needs two cards":        {1, 2, "a:g1s1 b:s1 >b"},
		"and has them if there are two":              {2, 2, "a:g1s1 >a b:g1 c:s1 >c"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBoard(c.cards, c.replicas)
			steps := strings.Fields(c.steps)
			for i, step := range steps {
				if strings.HasPrefix(step, ">") {
					continue
				}
				if card, ok := strings.CutPrefix(step, "used="); ok && card == "" {
					b.use()
				} else if ok {
					b.use(int(card[0] - '0'))
				} else if uid, ok := strings.CutSuffix(step, "-"); ok {
					b.gone(types.UID(uid))
				} else {
					uid, text, _ := strings.Cut(step, ":")
					ask := requests.Resources{}
					for ; text != ""; text = text[2:] {
						ask[map[byte]corev1.ResourceName{'g': gpu, 's': share}[text[0]]] = int64(text[1] - '0')
					}
					b.Wait(requesting(uid, 0, ask), false)
				}
				bound, err := b.settle()
				if err != nil {
					t.Fatalf("after %s: %v", step, err)
				}
				want := ""
				if i+1 < len(steps) && strings.HasPrefix(steps[i+1], ">") {
					want = steps[i+1][1:]
				}
				slices.Sort(bound)
				var got []string
				for _, uid := range bound {
					got = append(got, string(uid))
				}
				if got := strings.Join(got, ","); got != want {
					t.Fatalf("after %s: %q starts, want %q", step, got, want)
				}
			}
			for uid := range b.waiting {
				if why := b.Why(uid); !strings.Contains(why, "Insufficient nvidia.com/gpu") && name != "a pod of both kinds needs two cards" {
					t.Errorf("%s waits: %q", uid, why)
				}
			}
		})
	}
}

// TestDevicesInRoom: what others use is told beside what is there.
func TestDevicesInRoom(t *testing.T) {
	b := newBoard(2, 0)
	b.use(0, 1)
	b.Wait(requesting("a", 0, requests.Resources{gpu: 1}), false)
	if _, err := b.settle(); err != nil {
		t.Fatal(err)
	}
	r, _ := b.Room("a")
	if len(r.Short) != 1 || r.Short[0] != (prospect.Shortage{Resource: gpu, Request: 1, Free: 0, Allocatable: 2, Used: 2}) {
		t.Errorf("%+v", r.Short)
	}
	if !b.WantsDevices() {
		t.Error("it wants no device")
	}
	b.Gone("a")
	if b.WantsDevices() {
		t.Error("a pod that is gone wants a device")
	}
}

// TestSharesOfWhatAPodHasAsAWhole: a pod that requests a card and a share of one needs two, and keeps no room if there is only one.
func TestSharesOfWhatAPodHasAsAWhole(t *testing.T) {
	for _, cards := range []int{1, 2} {
		b := newBoard(cards, 4)
		b.StarvationAfter = time.Minute
		b.At(time.Unix(1, 0))
		b.Wait(requesting("both", 0, requests.Resources{gpu: 1, share: 1}), false)
		bound, err := b.settle()
		if err != nil || len(bound) != cards-1 {
			t.Fatalf("%d cards: %v %v", cards, bound, err)
		}
		if cards == 2 {
			continue
		}
		r, _ := b.Room("both")
		if r.Clear() || len(r.Short) != 1 || r.Short[0].Resource != share || r.Short[0].Free != 0 {
			t.Errorf("what it lacks: %+v", r.Short)
		}
		b.At(time.Unix(3600, 0))
		b.Wait(requesting("later", 0, requests.Resources{gpu: 1}), false)
		if bound, err := b.settle(); err != nil || !slices.Equal(bound, []types.UID{"later"}) {
			t.Errorf("behind it: %v %v", bound, err)
		}
	}
}

// TestDevicesArePreempted: for a whole card those of a lower priority end who share it.
func TestDevicesArePreempted(t *testing.T) {
	b := newBoard(1, 4)
	for _, uid := range []string{"a", "b"} {
		b.Wait(requesting(uid, 0, requests.Resources{share: 1}), false)
		if bound, err := b.settle(); err != nil || len(bound) != 1 {
			t.Fatal(bound, err)
		}
		b.Bound(b.bound[types.UID(uid)].Pod, time.Unix(1, 0), false)
	}
	b.Wait(requesting("first", 10, requests.Resources{gpu: 1}), false)
	step, ok := b.Next(nil)
	if slices.Sort(step.Victims); !ok || !slices.Equal(step.Victims, []types.UID{"a", "b"}) {
		t.Fatalf("%+v", step)
	}
	b.gone("a")
	b.gone("b")
	if bound, err := b.settle(); err != nil || !slices.Equal(bound, []types.UID{"first"}) {
		t.Errorf("%v %v", bound, err)
	}
}

// TestSharesDoNotStarveAWholeCard: whoever waits too long for a whole card gets it, though others would go on sharing it.
func TestSharesDoNotStarveAWholeCard(t *testing.T) {
	b := newBoard(1, 4)
	b.StarvationAfter = time.Minute
	now := time.Unix(1000, 0)
	b.At(now)
	add := func(uid string, ask requests.Resources) {
		p := requesting(uid, 0, ask)
		p.Created = seconds(now)
		b.Wait(p, false)
	}
	settle := func() (all []types.UID) {
		b.At(now)
		all, err := b.settle()
		if err != nil {
			t.Fatal(err)
		}
		for _, uid := range all {
			b.Bound(b.bound[uid].Pod, now, false)
		}
		return all
	}
	add("s0", requests.Resources{share: 1})
	settle()
	add("whole", requests.Resources{gpu: 1})
	settle()
	for i := 1; i < 100; i++ {
		now = now.Add(10 * time.Second)
		add(fmt.Sprintf("s%d", i), requests.Resources{share: 1})
		settle()
		uid := types.UID(fmt.Sprintf("s%d", i-1))
		if b.bound[uid] == nil {
			continue
		}
		b.gone(uid)
		if slices.Contains(settle(), "whole") {
			return
		}
	}
	t.Error("it never gets the card")
}

// TestDevicesAtRandom: whatever starts finds its cards, no card is shared and a pod's own at once, and one that others use is given to
// nobody. When all others have gone, whoever waits starts.
func TestDevicesAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cards, replicas := rapid.IntRange(1, 3).Draw(t, "cards"), rapid.Int64Range(1, 3).Draw(t, "replicas")
		b, made := newBoard(cards, replicas), 0
		settle := func() {
			before := map[types.UID]bool{}
			for uid := range b.bound {
				before[uid] = true
			}
			if _, err := b.settle(); err != nil {
				t.Fatal(err)
			}
			for i, card := range b.cards {
				sum, whole := int64(0), 0
				for uid, shares := range card.Pods {
					if sum += shares; shares == 0 {
						whole++
					}
					if card.Used && !before[uid] {
						t.Fatalf("%s starts on card %d, which others use", uid, i)
					}
				}
				if whole > 1 || whole == 1 && sum > 0 || sum > replicas {
					t.Fatalf("card %d: %v", i, card.Pods)
				}
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				made++
				ask := requests.Resources{gpu: rapid.Int64Range(1, int64(cards)).Draw(t, "whole")}
				b.Wait(requesting(fmt.Sprint("w", made), 0, ask), false)
			case 1:
				made++
				b.Wait(requesting(fmt.Sprint("s", made), 0, requests.Resources{share: 1}), false)
			case 2:
				if uids := slices.Sorted(maps.Keys(b.bound)); len(uids) > 0 {
					b.gone(rapid.SampledFrom(uids).Draw(t, "which"))
				}
			case 3:
				b.use(rapid.SliceOfN(rapid.IntRange(0, cards-1), 0, cards).Draw(t, "used")...)
			}
			settle()
		}
		b.use()
		for len(b.waiting) > 0 {
			settle()
			if len(b.bound) == 0 && len(b.waiting) > 0 {
				t.Fatalf("%d wait for nothing", len(b.waiting))
			}
			for uid := range maps.Clone(b.bound) {
				b.gone(uid)
			}
		}
	})
}
