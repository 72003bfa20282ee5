package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/internal/engine"
)

// fromEngine splits docker://IMAGE and podman://IMAGE.
func fromEngine(source string) (name, image string, ok bool) {
	name, image, ok = strings.Cut(source, "://")
	return name, image, ok && (name == engine.Docker || name == engine.Podman)
}

// importFrom imports an image that the user's Docker or podman has, under the names by which pods find it.
func (c *imageClient) importFrom(ctx context.Context, engineName, image, as string) error {
	if image == "" {
		return fmt.Errorf("name an image: %s://IMAGE", engineName)
	}
	e, err := engine.Mine(engineName, c.environment())
	if err != nil {
		return err
	}
	found, err := e.Find(ctx, image)
	if err != nil {
		return err
	}
	names := []string{as}
	if as == "" {
		if names, err = namesOf(engineName, image, found.Tags); err != nil {
			return err
		}
	}
	archive, err := e.Save(ctx, found.ID)
	if err != nil {
		return err
	}
	defer archive.Close()
	sent := &sender{r: archive}
	var list images.List
	if err := c.do(ctx, http.MethodPost, url.Values{"op": {"import"}, "name": {names[0]}}, sent, &list); err != nil {
		if sent.err != nil {
			return fmt.Errorf("%s broke off: %w", engineName, sent.err)
		}
		return err
	}
	if len(list.Items) == 0 {
		return errors.New("the daemon does not say what it has imported")
	}
	for _, more := range names[1:] {
		if err := c.tag(ctx, names[0], more); err != nil {
			return err
		}
		list.Items = append(list.Items, images.Image{Name: more, Size: list.Items[0].Size})
	}
	c.sayImported(list)
	return nil
}

func (c *imageClient) sayImported(list images.List) {
	for _, i := range list.Items {
		fmt.Fprintf(c.people(), "imported %s (%s)\n", i.Name, size(i.Size))
	}
}

// namesOf returns the full names of an image that was asked for by a name or an ID and has these tags in the engine. For a
// name, these are the name itself and podman's own name for what was built here without a registry; for an ID, all of the tags.
func namesOf(engineName, image string, tags []string) ([]string, error) {
	var all []string
	for _, tag := range tags {
		if full, err := fullName(tag); err == nil && !slices.Contains(all, full) {
			all = append(all, full)
		}
	}
	slices.Sort(all)
	asked, err := fullName(image)
	if err != nil {
		asked = ""
	}
	local := asked
	if rest, hub := strings.CutPrefix(asked, "docker.io/"); hub && engineName == engine.Podman {
		local = "localhost/" + strings.TrimPrefix(rest, "library/")
	}
	switch {
	case slices.Contains(all, asked):
		return []string{asked}, nil
	case slices.Contains(all, local):
		return []string{asked, local}, nil
	case len(all) == 0:
		return nil, fmt.Errorf("%s has no name for the image %s: give it one with --name", engineName, image)
	}
	return all, nil
}

// fullName returns what a name with a tag, or without one, stands for in a pod.
func fullName(name string) (string, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", err
	}
	if _, pinned := named.(reference.Canonical); pinned {
		return "", errors.New("a digest")
	}
	return named.String(), nil
}

// sender is what is sent to the daemon. It remembers why that could not be read, which is the cause of what follows.
type sender struct {
	r   io.Reader
	err error
}

func (s *sender) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}
