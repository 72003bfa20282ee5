package image

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/errdefs"
)

const (
	// labelPulled is on an image that a registry, or an engine of this machine, has given under its name, and could give again.
	labelPulled = "jobd.dev/pulled"
	// labelUsed records when an image was last used.
	labelUsed = "jobd.dev/used"
	// usePrecision is how exactly the last use of an image is recorded across restarts, since each record is a write to
	// the disk.
	usePrecision = time.Hour
)

// Users returns the images that are in use, by their full names.
type Users func(ctx context.Context) (map[string]bool, error)

// Collected is the outcome of a collection.
type Collected struct {
	// Removed are the names of the images that were removed, and Freed the bytes by which the disk has become emptier.
	Removed []string
	Freed   int64
	// Wanted is how many bytes should have been freed because of the disk, whose state was Before.
	Wanted int64
	Before Disk
}

// Short reports whether the disk remains too full.
func (c Collected) Short() bool { return c.Freed < c.Wanted }

// Collect removes unused images according to the policy. If it fails, it also returns what it had removed before.
func (i *Images) Collect(
	ctx context.Context, p GCPolicy, users Users, disk func() (Disk, error),
) (done Collected, err error) {
	ctx = i.inNamespace(ctx)
	// An image that is requested from now on is kept, whether or not it is among the users yet.
	now := time.Now()
	all, err := i.contents(ctx, users)
	if err != nil {
		return done, err
	}
	before, err := disk()
	if err != nil {
		return done, err
	}
	done.Wanted, done.Before = p.excess(before), before
	expired, spare := p.choose(all, now)
	var errs []error
	if done.Wanted > 0 { // what pulls that have failed have begun goes before any image
		err := i.sweep(ctx)
		if err == nil {
			var after Disk
			after, err = disk()
			done.Freed = max(0, after.Available-before.Available)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	remove := func(c candidate) (ok bool) {
		removed, err := i.removeUnused(ctx, c.names, now)
		done.Removed = append(done.Removed, removed...)
		if err == nil && len(removed) > 0 {
			var now Disk
			now, err = disk()
			done.Freed = max(0, now.Available-before.Available)
		}
		if err != nil {
			errs = append(errs, err)
		}
		return ctx.Err() == nil
	}
	for _, c := range expired {
		if !remove(c) {
			return done, ctx.Err()
		}
	}
	for _, c := range spare {
		// What others write meanwhile counts too, since it is the disk that must have free space.
		if !done.Short() {
			break
		}
		if !remove(c) {
			return done, ctx.Err()
		}
	}
	return done, errors.Join(errs...)
}

// sweep has containerd remove what nothing keeps.
func (i *Images) sweep(ctx context.Context) error {
	_, release, err := i.leased(ctx)
	if err != nil {
		return fmt.Errorf("collect what pulls have left: %w", err)
	}
	release(true)
	return nil
}

// contents returns all images with what is known of their use, and records that for the next start.
func (i *Images) contents(ctx context.Context, users Users) ([]candidate, error) {
	// Images first: an image that comes later is not looked at, so its users need not be known.
	stored, err := i.client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	used, err := users(ctx)
	if err != nil {
		return nil, fmt.Errorf("users of images: %w", err)
	}
	containers, err := i.client.ContainerService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("users of images: %w", err)
	}
	for _, c := range containers {
		used[c.Image] = true
	}
	byDigest := map[string]*candidate{}
	for _, s := range stored {
		c := byDigest[s.Target.Digest.String()]
		if c == nil {
			c = &candidate{pulled: true}
			byDigest[s.Target.Digest.String()] = c
		}
		if used[s.Name] {
			i.use(s.Name)
		}
		c.names = append(c.names, s.Name)
		c.inUse = c.inUse || used[s.Name]
		c.pulled = c.pulled && s.Labels[labelPulled] != ""
		if at := i.usedAt(s); at.After(c.lastUsed) {
			c.lastUsed = at
		}
		if err := i.noteUse(ctx, s); err != nil {
			return nil, err
		}
	}
	i.dropUses(stored)
	var all []candidate
	for _, c := range byDigest {
		slices.Sort(c.names)
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b candidate) int { return strings.Compare(a.names[0], b.names[0]) })
	return all, nil
}

// dropUses forgets when images were requested that are not present and do not seem to be on their way.
func (i *Images) dropUses(stored []images.Image) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, at := range i.used {
		here := slices.ContainsFunc(stored, func(s images.Image) bool { return s.Name == name })
		if !here && time.Since(at) > usePrecision {
			delete(i.used, name)
		}
	}
}

// use records that an image is requested.
func (i *Images) use(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.used[name] = time.Now()
}

// usedAt returns when an image was last requested, or was stored: what is stored changes with both.
func (i *Images) usedAt(s images.Image) time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	if at := i.used[s.Name]; at.After(s.UpdatedAt) {
		return at
	}
	return s.UpdatedAt
}

// noteUse records for the next start when an image was used.
func (i *Images) noteUse(ctx context.Context, s images.Image) error {
	at := i.usedAt(s)
	if at.Sub(s.UpdatedAt) < usePrecision {
		return nil
	}
	// The record is the time of this update. Nothing else is written, since the name may stand for another image by
	// now.
	used := images.Image{Name: s.Name, Labels: map[string]string{labelUsed: at.UTC().Format(time.RFC3339)}}
	if _, err := i.client.ImageService().Update(ctx, used, "labels."+labelUsed); err != nil &&
		!errdefs.IsNotFound(err) {
		return fmt.Errorf("note the use of image %s: %w", s.Name, err)
	}
	return nil
}

// removeUnused removes all names of an image, and its content, unless one of them was requested after since. Requests
// that come during the removal wait, and then find the image gone.
func (i *Images) removeUnused(ctx context.Context, list []string, since time.Time) (removed []string, err error) {
	gone, ok := i.beginRemoval(list, since)
	if !ok {
		return nil, nil
	}
	defer gone()
	for n, name := range list {
		var options []images.DeleteOpt
		if n == len(list)-1 {
			options = append(options, images.SynchronousDelete()) // the content is removed with the last name
		}
		switch err := i.client.ImageService().Delete(ctx, name, options...); {
		case err == nil:
			removed = append(removed, name)
		case !errdefs.IsNotFound(err):
			return removed, fmt.Errorf("remove image %s: %w", name, err)
		}
	}
	return removed, nil
}

func (i *Images) beginRemoval(list []string, since time.Time) (gone func(), ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, name := range list {
		// What the record of an image in use says was known before the decision.
		if i.used[name].After(since) {
			return nil, false
		}
	}
	i.drop()
	done := make(chan struct{})
	for _, name := range list {
		i.going[name] = done
	}
	return func() {
		i.mu.Lock()
		defer i.mu.Unlock()
		for _, name := range list {
			delete(i.going, name)
			delete(i.used, name)
		}
		i.drop()
		close(done)
	}, true
}

// await returns when the removal of an image has ended, and records that the image is requested.
func (i *Images) await(ctx context.Context, name string) error {
	for {
		i.mu.Lock()
		going := i.going[name]
		if going == nil {
			i.used[name] = time.Now()
			i.mu.Unlock()
			return nil
		}
		i.mu.Unlock()
		select {
		case <-going:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
