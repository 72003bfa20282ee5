package disk

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/eviction"
)

// However long the files of pods take to count, and though a file system does not answer for them, others are measured at once, and what
// is known after a while is the answer.
func TestPodsThatTakeLongToCountKeepNoEvictionWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var atOnce, most, asked atomic.Int64
		answer := make(chan struct{})
		work := func(ctx context.Context) error { // as of one file
			if err := ctx.Err(); err != nil {
				return err
			}
			most.Store(max(most.Load(), atOnce.Add(1)))
			time.Sleep(time.Millisecond)
			atOnce.Add(-1)
			return nil
		}
		s := &survey{use: func(ctx context.Context, p *corev1.Pod) (eviction.Use, error) {
			var use eviction.Use
			switch {
			case p.Name == "silent":
				asked.Add(1)
				<-answer
				return use, nil
			case p.Name == "quick":
				for range 20 {
					if err := work(ctx); err != nil {
						return use, err
					}
					use.Volumes.Inodes++
				}
				return use, nil
			}
			for {
				if err := work(ctx); err != nil {
					return use, err
				}
				use.Volumes.Inodes++
			}
		}}
		var pods []*corev1.Pod
		for i := range 102 {
			p := &corev1.Pod{}
			p.Name, p.UID = "slow", types.UID(fmt.Sprint(i))
			pods = append(pods, p)
		}
		pods[100].Name, pods[101].Name = "quick", "silent"
		for range 2 {
			began := time.Now()
			uses := s.take(t.Context(), pods)
			if took := time.Since(began); took > surveyTime+2*time.Second {
				t.Errorf("it took %v", took)
			}
			if len(uses) != len(pods) {
				t.Fatalf("%d of %d pods", len(uses), len(pods))
			}
			for _, u := range uses {
				if u.Partly != (u.Pod.Name != "quick") {
					t.Errorf("%s %s in part: %t", u.Pod.Name, u.Pod.UID, u.Partly)
				}
				if files := u.Volumes.Inodes; u.Pod.Name == "slow" && (files < 50 || files > 400) {
					t.Errorf("pod %s got as far as %d files: there are turns for 200", u.Pod.UID, files)
				}
			}
		}
		if most.Load() > surveyed || asked.Load() != 1 {
			t.Errorf("%d at once, and who does not answer was asked %d times", most.Load(), asked.Load())
		}
		close(answer)
		synctest.Wait()
		if uses := s.take(t.Context(), pods[100:]); uses[0].Partly || uses[1].Partly || len(s.busy) > 0 {
			t.Errorf("once it answers: %+v", uses)
		}
	})
}
