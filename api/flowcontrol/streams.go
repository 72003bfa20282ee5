package flowcontrol

import (
	"net/http"
	"time"

	"github.com/jobd/jobd/api/conns"
)

// BoundStreams bounds what is left of requests over HTTP/2 that hold no place: a client that lets the server send nothing, by its window,
// leaves each answer where it is, with its request. It has to read within a time, and is hung up on if there are too many. So is one that
// breaks off too many requests.
func BoundStreams(next http.Handler, within time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := conns.From(r.Context())
		if r.ProtoMajor < 2 || c == nil {
			next.ServeHTTP(w, r)
			return
		}
		defer func() {
			if r.Context().Err() != nil {
				c.Broken()
			}
		}()
		if r.Context().Err() != nil {
			return // its client has ended it before its turn of a processor has come
		}
		stream := c.Begin()
		//lint:ignore SA1019 the context of the request ends with its handler, and nothing else tells of the end of the stream
		ended := w.(http.CloseNotifier).CloseNotify()
		go func() {
			<-ended
			stream.End()
		}()
		next.ServeHTTP(w, r.WithContext(conns.WithStream(r.Context(), stream)))
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within)) // each stream has one of its own
	})
}

// delivered waits until the client has read all of an answer over HTTP/2 but its end, which may be as long as it likes: the place of the
// request is held until then.
func delivered(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		_ = http.NewResponseController(w).Flush() // there is one to every connection
	}
}
