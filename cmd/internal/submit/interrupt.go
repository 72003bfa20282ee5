package submit

import (
	"fmt"
	"os"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/cmd/internal/progress"
)

// interrupt does what an interrupt is to do, and reports whether the command ends now.
func (r *following) interrupt(s os.Signal) (over bool, err error) {
	switch {
	case r.deleting:
		return true, nil // a second one ends it at once
	case r.OnInterrupt != OnInterruptAsk && r.OnInterrupt != "":
		return r.leave(s, r.OnInterrupt)
	case s != os.Interrupt:
		return r.leave(s, OnInterruptDetach)
	case r.asking:
		return r.leave(s, OnInterruptDetach)
	}
	// Asked beside everything else: the Job may end before there is an answer.
	r.asking = true
	go func() {
		answer, asked := r.Display.Ask(fmt.Sprintf("Interrupted: what about job %s?", r.job.Name), []progress.Answer{
			{Key: "d", Text: "detach, it keeps running"}, {Key: "k", Text: "kill it: delete the Job"}, {Key: "c", Text: "continue"},
		})
		u := update{is: answered, signal: s, answer: OnInterruptDetach}
		switch {
		case asked && answer == "k":
			u.answer = OnInterruptDelete
		case asked && answer == "c":
			u.answer = ""
		}
		r.send(u)
	}()
	return false, nil
}

// leave detaches or deletes the Job, and reports whether the command ends now.
func (r *following) leave(s os.Signal, what string) (over bool, err error) {
	r.interruptedBy = s
	if what != OnInterruptDelete {
		r.notice("job %s goes on%s", r.job.Name, r.again())
		return true, nil
	}
	r.deleting = true
	r.notice("deleting job %s", r.job.Name)
	foreground := metav1.DeletePropagationForeground
	err = r.Client.Kubernetes.BatchV1().Jobs(r.job.Namespace).Delete(r.ctx, r.job.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &r.job.UID},
	})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return false, err
}

// InterruptedBy is the end of a command by a signal.
func InterruptedBy(s os.Signal) Ended {
	code := int32(ExitSignal + int(syscall.SIGINT))
	if s, ok := s.(syscall.Signal); ok {
		code = ExitSignal + int32(s)
	}
	return Ended{Result: Result{Code: code}, Interrupted: true}
}
