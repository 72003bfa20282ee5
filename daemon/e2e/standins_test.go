package e2e

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/jobd/jobd/testdata/images"
)

// standInPrograms are those that the images named in testdata/manifests and testdata/charts have beside a shell. Each
// prints how it was called.
var standInPrograms = []string{"alembic", "ansible-playbook", "aws", "bundle", "cargo", "dbt", "docker-compose", "docker-entrypoint.sh",
	"executor", "flyway", "git", "go", "gsutil", "helm", "java", "k6", "liquibase", "mc", "mongodump", "mvn", "mysql",
	"mysqldump", "nvidia-smi", "node", "npm", "npx", "pg_dump", "pg_isready", "php", "psql", "python", "rails", "rake", "rclone",
	"redis-cli", "restic", "spark-submit", "terraform", "torchrun", "trivy"}

// standInEntrypoints are the entrypoints of images that have one, by the last part of the repository.
var standInEntrypoints = map[string][]string{
	"aws-cli": {"aws"}, "executor": {"executor"}, "flyway": {"flyway"}, "git": {"git"}, "k6": {"k6", "run"}, "liquibase": {"docker-entrypoint.sh"},
	"mc": {"mc"}, "postgres": {"docker-entrypoint.sh"}, "rclone": {"rclone"}, "restic": {"restic"}, "terraform": {"terraform"},
	"trivy": {"trivy"},
}

const standIn = `#!/bin/sh
case "${0##*/} $1" in
"docker-entrypoint.sh "*) exec "$@" ;;
"git clone") for to; do :; done; mkdir -p "$to" && echo "# cloned" >"$to/README.md" ;;
esac
echo "${0##*/} $*"
`

// standInRegistry serves an image under every name there is, so that manifests name the images that people name. They have
// a shell and standInPrograms; those that end in kubectl, and python, have the real programs. Repositories called never-pushed are
// not found. It returns a directory for --registry-hosts that sends everything there.
func standInRegistry(t *testing.T, kubectl string) string {
	t.Helper()
	needContainers(t)
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	request := regexp.MustCompile(`^/v2/(.+)/(manifests|blobs)/([^/]+)$`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if found := request.FindStringSubmatch(r.URL.Path); found != nil && r.Method != http.MethodPut {
			base := path.Base(found[1])
			if base == "never-pushed" {
				http.NotFound(w, r)
				return
			}
			if _, special := standInEntrypoints[base]; strings.HasSuffix(base, "kubectl") {
				base = "kubectl"
			} else if !special && base != "python" {
				base = "any"
			}
			reference := found[3]
			if found[2] == "manifests" && !regexp.MustCompile(`^sha256:`).MatchString(reference) {
				reference = "latest"
			}
			r.URL.Path = "/v2/" + base + "/" + found[2] + "/" + reference
		}
		store.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)

	host := server.Listener.Addr().String()
	push := func(repository string, image images.Image, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		tag, err := name.NewTag(host+"/"+repository+":latest", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(tag, image, remote.WithContext(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	tree := func(files ...func(*images.Tree)) *images.Tree {
		t := images.NewTree()
		t.Busybox("/bin")
		t.Dir("/usr/bin", 0o755)
		t.Link("/usr/bin/env", "../../bin/busybox")
		for _, add := range files {
			add(t)
		}
		return t
	}
	config := v1.Config{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Cmd: []string{"sh"}}
	base := tree(func(t *images.Tree) {
		t.Text("/usr/local/bin/stand-in", 0o755, standIn)
		for _, program := range standInPrograms {
			t.Link("/usr/local/bin/"+program, "stand-in")
		}
		t.Link("/kaniko/executor", "/usr/local/bin/stand-in")
		t.Dir("/app", 0o777)
	})
	any, err := images.New(base, config)
	push("any", any, err)
	for repository, entrypoint := range standInEntrypoints {
		config := config
		config.Entrypoint, config.Cmd = entrypoint, nil
		image, err := images.New(base, config)
		push(repository, image, err)
	}
	withKubectl, err := images.New(tree(func(t *images.Tree) {
		t.Program(kubectl)
		if kubectl != "/usr/bin/kubectl" {
			t.Link("/usr/bin/kubectl", kubectl)
		}
	}), config)
	push("kubectl", withKubectl, err)
	python, err := images.Python()
	push("python", python, err)

	hosts := t.TempDir()
	if err := os.Mkdir(filepath.Join(hosts, "_default"), 0o755); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", server.URL)
	if err := os.WriteFile(filepath.Join(hosts, "_default", "hosts.toml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return hosts
}
