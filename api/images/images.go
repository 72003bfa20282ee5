// Package images is the protocol between the daemon and jobctl for images. It is jobd's own, no API of Kubernetes:
//
//	GET    /jobd/v1/images                        a List
//	GET    /jobd/v1/images?op=transfers           Transfers: what is being pulled and imported now
//	POST   /jobd/v1/images?op=import[&name=NAME]  with an OCI or Docker archive as the body: a List of what was in it
//	POST   /jobd/v1/images?op=pull&ref=REF        a stream of Events, one a line; the last has an image or an error
//	POST   /jobd/v1/images?op=push&ref=REF&to=REF the same; the client's Credentials for that registry may be in the header AuthHeader
//	POST   /jobd/v1/images?op=tag&ref=REF&to=REF  a List of what has the name now
//	POST   /jobd/v1/images?op=prune[&all=true][&dryRun=true]  Pruned
//	DELETE /jobd/v1/images?ref=REF                nothing
//
// These are for administrators. Users of the machine who may list nodes get the List, with names and sizes alone.
//
// Errors are answered as a Status, like those of Kubernetes.
package images

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Path is where images are served.
const Path = "/jobd/v1/images"

// Image is one that pods can be started from.
type Image struct {
	// Name is the full reference: docker.io/library/perl:5.34.0
	Name string `json:"name"`
	// ID is the digest of the image's config, Digest that of the manifest or index that the name stands for.
	ID     string `json:"id,omitempty"`
	Digest string `json:"digest,omitempty"`
	// Size is that of its content, in bytes.
	Size    int64     `json:"size"`
	Created time.Time `json:"created,omitzero"`
	// Engine is the docker or podman that it was taken from, if it was not pulled or imported.
	Engine string `json:"engine,omitempty"`
	// Local: no registry has given it under its name, so that other machines may not find it.
	Local bool `json:"local,omitempty"`
}

// List is several images.
type List struct {
	Items []Image `json:"items"`
}

// Event is a line of what a pull answers. Exactly one of its fields is set.
type Event struct {
	Progress string         `json:"progress,omitempty"`
	Image    *Image         `json:"image,omitempty"`
	Error    *metav1.Status `json:"error,omitempty"`
}

// Transfer is how far a pull or an import is.
type Transfer struct {
	// Name is the full reference of the image; of an import the name that it was given, or "archive".
	Name   string `json:"name"`
	Import bool   `json:"import,omitempty"`
	// Engine is the docker or podman that it is taken from, if it is not pulled from a registry.
	Engine string `json:"engine,omitempty"`
	// Bytes have come of TotalBytes, which is 0 if that is not known.
	Bytes      int64 `json:"bytes"`
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// Layers are complete of TotalLayers. An image of which all are complete is being unpacked.
	Layers      int `json:"layers"`
	TotalLayers int `json:"totalLayers,omitempty"`
}

// Transfers are those that are under way.
type Transfers struct {
	Items []Transfer `json:"items"`
}

// AuthHeader has the Credentials of a push, as JSON in base64url, like that header of Docker's API.
const AuthHeader = "X-Registry-Auth"

// Credentials are what the registry is shown. An identity token stands for both of the others.
type Credentials struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
}

// Pruned is what was removed because nobody needs it, or would be.
type Pruned struct {
	Items []Image `json:"items"`
	// Freed is by how much the disk has become emptier; of a dry run what only these images have.
	Freed int64 `json:"freed"`
	// Kept is how many images are as unused, but were imported, so that no registry could bring them back.
	Kept int `json:"kept,omitempty"`
}
