package flowcontrol

import (
	"net/http"
	goruntime "runtime"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// WithDeepStack makes the stack as large as most requests need it while there is little on it. The timeout runs each on
// a new goroutine, and its stack would be copied again and again on the way in: a tenth of the CPU of a GET.
func WithDeepStack(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		deepen()
		next.ServeHTTP(w, r)
	})
}

//go:noinline
func deepen() {
	var frame [9 << 10]byte // a little more than half of the stack that this makes
	goruntime.KeepAlive(&frame)
}

// DeepCreater does the same for what creates an object: the handlers do that on one more goroutine, which asks for an empty
// object first. The managed fields of a Job need twice as much as most requests.
type DeepCreater struct{ runtime.ObjectCreater }

// New implements runtime.ObjectCreater.
func (c DeepCreater) New(kind schema.GroupVersionKind) (runtime.Object, error) {
	deepenTwice()
	return c.ObjectCreater.New(kind)
}

//go:noinline
func deepenTwice() {
	var frame [17 << 10]byte
	goruntime.KeepAlive(&frame)
}
