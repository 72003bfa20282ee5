package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/testdata/registry"
)

// The credentials in the pull secrets of a pod or of its ServiceAccount are shown to the private registry, and to
// nobody else.
func TestImagePullSecrets(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{User: "me", Password: "S3cr3t"})
	private, _ := r.Push(t, busyboxWith(t, "private"), "private:1")
	d := start(t)
	pulls := func(name, more, policy string) string {
		return fmt.Sprintf(
			`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never, %s containers: [{name: c, image: %q, imagePullPolicy: %s, command: [cat, /content]}]}}`,
			name, more, private, policy,
		)
	}
	pod := func(name, more string) string { return pulls(name, more, "Always") }
	waitsFor := func(reason string) func(p *corev1.Pod) bool {
		return func(p *corev1.Pod) bool {
			s := p.Status.ContainerStatuses
			return len(s) == 1 && s[0].State.Waiting != nil && s[0].State.Waiting.Reason == reason
		}
	}
	waits := waitsFor("ImagePullBackOff")
	d.apply(pod("stranger", "imagePullSecrets: [{name: missing}],"))
	p := d.podUntil("stranger", "is refused", waits)
	if m := p.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(m, "no basic auth credentials") {
		t.Errorf("it says %q", m)
	}
	d.jobctl("create", "secret", "docker-registry", "mine", "--docker-server="+r.Host, "--docker-username=me", "--docker-password=S3cr3t")
	d.apply(pod("friend", "imagePullSecrets: [{name: mine}],"))
	d.podUntil("friend", "has succeeded", succeeded)
	d.apply("{apiVersion: v1, kind: ServiceAccount, metadata: {name: account}, imagePullSecrets: [{name: mine}]}")
	d.apply(pod("account", "serviceAccountName: account,"))
	d.podUntil("account", "has succeeded", succeeded)

	// The image is here now, but only for those who have shown that they may have it (KEP-2535).
	d.apply(pulls("thief", "", "IfNotPresent"))
	d.apply(pulls("never", "", "Never"))
	d.apply(pulls("again", "imagePullSecrets: [{name: mine}],", "Never"))
	d.apply(
		fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: misnamed}, spec: {restartPolicy: Never, containers: [{name: c, image: %q}]}}`, "Not/A/Name"),
	)
	d.podUntil("again", "has succeeded", succeeded)
	d.podUntil("thief", "is refused", waits)
	d.podUntil("never", "does not find it", waitsFor("ErrImageNeverPull"))
	d.podUntil("misnamed", "has no image", waitsFor("InvalidImageName"))

	events := d.jobctl("get", "events", "-o", "json")
	for _, want := range []string{
		"Unable to retrieve some image pull secrets (missing); attempting to pull the image may not succeed.",
		`"FailedToRetrieveImagePullSecret"`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("no event says %s", want)
		}
	}
	if said := events + d.output.String(); strings.Contains(said, "S3cr3t") {
		t.Error("the password stands in events or in the daemon's log")
	}
}
