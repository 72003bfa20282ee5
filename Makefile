# The two commands of the README are `make demo` and `make test`.
# The last tag and what came after it; before the first tag, and without git, a version that comes before all others.
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || \
	TZ=UTC git log -1 --date=format-local:%Y%m%d%H%M%S --format=v0.0.0-%cd-%h 2>/dev/null || echo v0.0.0-dev)
# The version of Kubernetes whose API is served: that of its libraries, v0.N for v1.N.
KUBERNETES := $(shell sed -n 's|^\tk8s.io/api v0|v1|p' go.mod)
PREFIX ?= /usr/local

KUBE := k8s.io/component-base/version
LDFLAGS := -s -w -X main.version=$(VERSION) \
	-X $(KUBE).gitVersion=$(KUBERNETES)+jobd-$(VERSION) -X $(KUBE).gitMajor=1 -X $(KUBE).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))
# One set of flags for everything, so that the packages are compiled once, and once more for the race detector.
# The compiler and staticcheck do a quarter less work when they collect garbage less often, for a few hundred MB more memory.
# TOOLS is set for them alone: what they build and test runs as usual. Data for debuggers, which the programs leave out anyway
# (-s -w), is a sixth of the compiler's work; stack traces and profiles do not need it.
TOOLS := GOGC=400
export GOFLAGS := -trimpath -buildvcs=false -gcflags=all=-dwarf=false '-toolexec=env $(TOOLS)'
export CGO_ENABLED := 0
# Rules and decisions, which start no goroutines: the race detector has nothing to find there, makes their random tests
# several times as long, and takes twice as long to link each.
SEQUENTIAL := $(addprefix api/,absent annotations batch clusters conditions core disruption forecast history hostimage hostpath indexes jobset kueue limits networking notices openapi picture \
	podspec quota rbac retry roles runas runtimeclass schedule scheduling scheme shares storageclass why window) \
	$(addprefix cmd/internal/,batchscript hue manual page startat terminal translations) \
	$(addprefix daemon/,allotment cards causes causes/causestest causes/parents claim config cron dependents duty events eviction exits fairness fit forecast gang hold job jobset \
		jobsets kubelet load node notices picture pod prospect relation requests simulation upkeep workload workloads) \
	$(addprefix internal/,handover heap layout quantity yamltext) $(addprefix runtime/,oci shard/protocol)
# Long tests of one goroutine in packages that have more.
SEQUENTIAL_TESTS := TestPassesCostWhatTheyAreGiven|TestPassesOfTwoAdversaries|TestTheFileDoesNotGrowForever|TestTheSimulation.*|TestNoPodStartsOutsideItsWindow|TestAllThatHoldsJobsBackGoesTogether
# ./... leaves out what is under testdata. testdata/upstream, conformance, jobset and otelcol are modules of their own.
TESTED := ./... ./testdata/images ./testdata/repository ./testdata/screenshots/moving
PACKAGES = ./... $(patsubst %/,./%,$(sort $(dir $(shell git ls-files 'testdata/*.go' ':!testdata/upstream' ':!testdata/conformance' ':!testdata/jobset' ':!testdata/otelcol'))))

.PHONY: build demo check test test-deps unit unit-sequential unit-race e2e e2e-tools e2e-clients e2e-cluster upgrade crash crash-hammer forward-hammer hammer histories simulate-daemon fuzz passes bench bench-peers soak lint deadcode compare conformance conformance-short conformance-jobset generate screenshots install release clean e2e-vm e2e-vm-short e2e-packages

build: ## bin/jobd, bin/jobd-shim, bin/jobctl: static
	@mkdir -p bin
	@go build -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

demo: ## 2000 digits of pi, computed by a Job in a container
	@testdata/demo/demo.sh '$(VERSION)' '$(LDFLAGS)'

check: lint ## all that a minute can check: no race detector, nothing that needs root
	go test -short -vet=off $(TESTED)

test: test-deps lint unit e2e ## everything: what CI runs

test-deps: ## the Debian packages that tests need
	@testdata/test-deps.sh

# With RERUN=1, as in CI, a test that fails is run up to twice more by itself, and one that then passes is named at the end. It is a
# bug that must be found, but what was submitted with it is not lost. A data race is no such test.
RERUN ?=
GOTESTSUM := go tool -modfile=testdata/tools/gotestsum.mod gotestsum --format standard-quiet --hide-summary skipped \
	--rerun-fails --rerun-fails-max-failures 12 --rerun-fails-run-root-test --rerun-fails-abort-on-data-race
gotest = $(if $(RERUN),$(GOTESTSUM) --packages '$(strip $(2))' -- $(1),go test $(1) $(2))

unit: unit-sequential unit-race ## all packages but the end-to-end tests, under the race detector but for those that lint keeps without goroutines

unit-sequential:
	$(call gotest,-vet=off,$(addprefix ./,$(SEQUENTIAL)))
	$(call gotest,-vet=off -run '^($(SEQUENTIAL_TESTS))$$',./daemon/control ./store)

# Some packages wait for disks and processes, so there is one more at a time than there are processors.
unit-race:
	CGO_ENABLED=1 $(call gotest,-race -vet=off -timeout 30m -p $$(($$(nproc) + 1)) -skip '^($(SEQUENTIAL_TESTS))$$', \
		$(filter-out $(addprefix %/jobd/,$(SEQUENTIAL) daemon/e2e),$(shell go list $(TESTED))))

# The OCI runtime of the end-to-end tests: crun or runc; if empty, the one that jobd chooses.
RUNTIME ?=
e2e e2e-tools e2e-clients e2e-vm crash crash-hammer: export JOBD_E2E_RUNTIME = $(RUNTIME)
# How many end-to-end tests run at once, each with a daemon of its own: they wait most of the time.
E2E_PARALLEL ?= 4
# With "default" all pods of the end-to-end tests have users of their own that use no namespace of the host.
USERS ?=
e2e e2e-tools crash crash-hammer: export JOBD_E2E_USER_NAMESPACES = $(USERS)

e2e e2e-tools e2e-clients: export NODE_PATH ?= $(wildcard $(CURDIR)/.node/node_modules)
e2e: build ## real containers, a real kubectl, kill -9, with RUNTIME=crun or runc, USERS=default
	JOBD_E2E=$(CURDIR)/bin $(call gotest,-count=1 -vet=off -timeout 40m -parallel $(E2E_PARALLEL),./daemon/e2e)

# Each tool is built from a go.mod of its own, so that it does not decide jobd's dependencies; where it can have them it has
# jobd's versions of k8s.io, which are compiled already. CI has the short form, as cold the tools take as long to compile as jobd:
# in `make e2e` TestCharts and TestTools use the machine's own helm, for three charts, kustomize and stern, and skip what it lacks.
E2E_TOOLS := $(CURDIR)/.tools
e2e-tools: OLDER = $(shell sed -n 's|^\tk8s.io/kubectl v0\([^ ]*\).*|v1\1|p' testdata/tools/kubectl-older.mod)
e2e-tools: build test-deps ## charts and other people's tools: two versions of Helm, an older kubectl, kustomize, stern, Python, cdk8s, shippers of logs
	@mkdir -p $(E2E_TOOLS)
	go build -modfile=testdata/tools/helm3.mod -ldflags '-s -w' -o $(E2E_TOOLS)/helm3 helm.sh/helm/v3/cmd/helm
	go build -modfile=testdata/tools/helm4.mod -ldflags '-s -w' -o $(E2E_TOOLS)/helm4 helm.sh/helm/v4/cmd/helm
	go build -modfile=testdata/tools/kubectl-older.mod -ldflags '-s -w -X $(KUBE).gitVersion=$(OLDER)' -o $(E2E_TOOLS)/kubectl-older ./testdata/kubectl
	go build -modfile=testdata/tools/kustomize.mod -ldflags '-s -w' -o $(E2E_TOOLS)/kustomize sigs.k8s.io/kustomize/kustomize/v5
	go build -modfile=testdata/tools/stern.mod -ldflags '-s -w' -o $(E2E_TOOLS)/stern github.com/stern/stern
	cd testdata/otelcol && go build -ldflags '-s -w' -o $(E2E_TOOLS)/otelcol .
	JOBD_E2E=$(CURDIR)/bin JOBD_E2E_TOOLS=$(E2E_TOOLS) go test -count=1 -vet=off -v -timeout 40m -run '^(TestCharts|TestTools|TestLogsAreShipped)$$' ./daemon/e2e

# In `make e2e` TestClients runs the replays, which need Python's and JavaScript's clients alone. A program that cannot be had, or
# not within 15 minutes, is skipped by name.
e2e-clients: build test-deps ## programs that launch work: OpenTofu, Ansible, Toil, k9s, kubetail; replays of Airflow, Spark, CI runners and others
	@mkdir -p $(E2E_TOOLS)
	@testdata/apt-install.sh ansible-playbook=ansible toil=toil kubetail=kubetail || echo "e2e-clients: those are skipped" >&2
	-timeout 15m go build -modfile=testdata/tools/k9s.mod -ldflags '-s -w' -o $(E2E_TOOLS)/k9s github.com/derailed/k9s
	-timeout 15m go build -modfile=testdata/tools/tofu.mod -ldflags '-s -w' -o $(E2E_TOOLS)/tofu github.com/opentofu/opentofu/cmd/tofu
	-timeout 15m go build -modfile=testdata/tools/terraform-provider.mod -ldflags '-s -w' -o $(E2E_TOOLS)/terraform-provider-kubernetes \
		github.com/hashicorp/terraform-provider-kubernetes
	JOBD_E2E=$(CURDIR)/bin JOBD_E2E_CLIENTS=all JOBD_E2E_TOOLS=$(E2E_TOOLS) \
		go test -count=1 -vet=off -v -timeout 40m -run '^Test(Clients|ProgramsThatNeedOtherKinds)$$' ./daemon/e2e

# How many Jobs Kueue hands out while its workers are shot at, and how many then undisturbed, which is slow: it asks each worker five times a
# second. How many are forwarded while the forwarder and the line are shot at, and then undisturbed.
DISPATCHED ?= 200
DISPATCHED_MEASURED ?= 300
JOBS ?= 1000
MEASURED ?= 1000
# Each program has the versions with which it was released; those of Kubernetes are those of testdata/conformance, which are compiled once.
RELEASE = $(shell sed -n 's|^require k8s.io/kubernetes \(v[0-9.]*\).*|\1|p' testdata/tools/kubernetes.mod)
CLUSTER := $(E2E_TOOLS)/cluster
e2e-cluster: build test-deps ## jobd beside real etcd, kube-apiserver, controller-manager, scheduler and Kueue: DISPATCHED=200 JOBS=1000 MEASURED=1000
	@mkdir -p $(CLUSTER)
	go build -modfile=testdata/tools/kubernetes.mod -ldflags '-s -w' -o $(CLUSTER)/etcd go.etcd.io/etcd/server/v3
	go build -modfile=testdata/tools/kubernetes.mod -ldflags '-s -w -X $(KUBE).gitVersion=$(RELEASE)' -o $(CLUSTER)/ \
		k8s.io/kubernetes/cmd/kube-apiserver k8s.io/kubernetes/cmd/kube-controller-manager k8s.io/kubernetes/cmd/kube-scheduler
	go build -modfile=testdata/tools/kueue.mod -ldflags '-s -w' -o $(CLUSTER)/kueue sigs.k8s.io/kueue/cmd/kueue
	JOBD_E2E=$(CURDIR)/bin JOBD_E2E_CLUSTER=$(CLUSTER) JOBD_DISPATCHED=$(DISPATCHED) JOBD_DISPATCHED_MEASURED=$(DISPATCHED_MEASURED) \
		JOBD_FORWARDED=$(JOBS) JOBD_MEASURED=$(MEASURED) \
		go test -count=1 -vet=off -v -timeout 3h -run '^Test(KueueHandsOut|ForwardToARealCluster)$$' ./daemon/e2e

# A tag or commit.
FROM ?=
upgrade: build test-deps ## running pods of an older jobd, that of FROM=v0.1.0, taken over; with RECORD=1 its database is kept in testdata/upgrade
	@test -n "$(FROM)" || { echo "upgrade: needs FROM=a tag or commit"; exit 1; }
	@rm -rf .upgrade && mkdir -p .upgrade/src && git archive $(FROM) | tar -C .upgrade/src -x
	cd .upgrade/src && go build -ldflags '$(subst $(VERSION),$(FROM),$(LDFLAGS))' -o ../bin/ ./cmd/...
	JOBD_E2E=$(CURDIR)/bin JOBD_E2E_OLDER=$(CURDIR)/.upgrade/bin \
		$(if $(RECORD),JOBD_E2E_RECORD=$(CURDIR)/testdata/upgrade/$(FROM).tar.gz) \
		go test -count=1 -vet=off -v -run '^TestUpgradeOfADaemon$$' ./daemon/e2e

VM := .vm
e2e-vm: test-deps ## the same and more in an emulated machine: cgroup v2, reboots, power cuts, with RUNTIME=crun or runc
	@testdata/vm/deps.sh
	@mkdir -p $(VM)/bin
	@go build -ldflags '$(LDFLAGS)' -o $(VM)/bin/ ./cmd/... ./testdata/kubectl ./testdata/attacker
	@go test -c -ldflags '-s -w' -o $(VM)/bin/ ./daemon/e2e ./runtime/persistent
	@go run ./testdata/images/cmd/mkimage busybox docker.io/library/busybox:1.36 >$(VM)/bin/busybox.tar
	@testdata/vm/image.sh $(VM) $(CURDIR)/$(VM)/bin
	JOBD_VM=$(CURDIR)/$(VM) go test -count=1 -v -timeout 6h $(VMFLAGS) ./testdata/vm

e2e-vm-short: VMFLAGS += -short
e2e-vm-short: e2e-vm ## a few tests, one reboot and one power cut, in one machine

PACKAGED := .packages
# Pods that run while the package is upgraded.
PODS ?= 100
# The commit whose packages are upgraded: the release before this one, and before there are two, the first commit that made packages.
e2e-packages: FROM := $(or $(FROM),$(shell git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null || echo e5076ca))
e2e-packages: test-deps ## deb, rpm and tar.gz installed, upgraded from FROM's with PODS=100 running pods and removed, in an emulated Debian
	@mkdir -p $(PACKAGED)
	@testdata/packages/older.sh '$(FROM)' $(PACKAGED)/old v0.1.0
	@DIST=$(PACKAGED)/new ARCHS=amd64 packaging/release.sh v0.2.0 '$(subst $(VERSION),v0.2.0,$(LDFLAGS))'
	@go run ./testdata/images/cmd/mkimage busybox docker.io/library/busybox:1.36 >$(PACKAGED)/busybox.tar
	@go run ./testdata/images/cmd/mkimage perl docker.io/library/perl:5.34.0 >$(PACKAGED)/perl.tar
	@PODS=$(PODS) testdata/packages/run.sh $(PACKAGED)

crash: build test-deps ## the daemon and its shards killed at each step of a pod's life, with RUNTIME=crun or runc
	JOBD_E2E=$(CURDIR)/bin JOBD_CRASH_MATRIX=all go test -count=1 -timeout 0 -v -run '^TestCrash(Matrix|Scenarios)$$' ./daemon/e2e

HAMMER ?= 10m
crash-hammer: build test-deps ## 500 pods in a row and 50 at a time for HAMMER=10m, under random kill -9, with the seed that JOBD_HAMMER_SEED may have
	JOBD_E2E=$(CURDIR)/bin JOBD_CRASH_HAMMER=$(HAMMER) go test -count=1 -timeout 0 -v -run '^TestCrashHammer$$' ./daemon/e2e

# How many Jobs are forwarded while the forwarder and the line are shot at.
FORWARDED ?= 300
forward-hammer: build test-deps ## FORWARDED=300 Jobs that go to a cluster while the forwarder is killed and the line is cut; all recorded scenarios, forwarded
	JOBD_E2E=$(CURDIR)/bin JOBD_FORWARDED=$(FORWARDED) go test -count=1 -timeout 0 -v -run '^(TestForwardKilledAnywhere|TestForwardedScenarios)$$' ./daemon/e2e

hammer: ## random requests from many clients for HAMMER=10m, with the seed that JOBD_HAMMER_SEED may have
	JOBD_HAMMER=$(HAMMER) go test -count=1 -timeout 0 -v -run '^TestHammer$$' ./daemon/clients

HISTORIES ?= 1000
histories: ## HISTORIES=1000 of what clients are told while the daemon is killed, stopped or finds its disk full, each put into one order
	JOBD_HISTORIES=$(HISTORIES) go test -count=1 -vet=off -timeout 0 -v -run '^TestHistories$$' ./daemon/clients

SEEDS ?= 1000
FIRST ?= 0
simulate-daemon: ## SEEDS=1000 plans, from the one of the seed FIRST, in virtual time, while the runtime fails and the daemon is killed anywhere
	go test -count=1 -vet=off -timeout 0 -v ./daemon/chaos -seeds $(SEEDS) -first $(FIRST) -shorten

FUZZ ?= 1m
fuzz: ## each fuzz test for FUZZ=1m
	@for dir in $$(git ls-files '*_test.go' | xargs grep -l '^func Fuzz' | xargs -n1 dirname | sort -u); do \
		for name in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$dir/*_test.go | cut -c6-); do \
			echo "$$dir $$name"; go test -run='^$$' -fuzz="^$$name\$$" -fuzztime=$(FUZZ) ./$$dir || exit 1; \
		done; done

PASSES ?= 10m
passes: ## pairs of objects that are made to hold up a pass, for PASSES=10m
	JOBD_PASSES=$(PASSES) go test -count=1 -vet=off -timeout 0 -v -run '^TestPassesOfTwoAdversaries$$' ./daemon/control

bench: build ## the figures of BENCHMARKS.md, beside the raw limits of the same run
	go run ./testdata/bench -bin bin $(BENCHFLAGS)

# Each is measured by its own package of Debian, in directories of its own, and left out by name where it is missing.
bench-peers: build ## jobd beside Slurm, docker, podman, ctr, task-spooler and GNU parallel, in turns: one table
	@testdata/apt-install.sh /bin/busybox=busybox-static crun=crun srun=slurm-wlm munged=munge dockerd=docker.io podman=podman ctr=containerd \
		tsp=task-spooler parallel=parallel || echo "bench-peers: those are left out" >&2
	@command -v docker >/dev/null || testdata/apt-install.sh docker-cli || true
	go run ./testdata/bench -bin bin -only tools $(BENCHFLAGS)

soak: build ## 200,000 short pods in a row, which must leave nothing behind; hours, or minutes with SOAKFLAGS="-pods 2000"
	go run ./testdata/soak -bin bin $(SOAKFLAGS)

conformance: build test-deps ## Kubernetes' own specs for nodes, Jobs and the API, those whose names match FOCUS='an expression'
	testdata/conformance/run.sh bin $(if $(FOCUS),'$(FOCUS)')

conformance-jobset: build test-deps ## JobSet's own end-to-end specs on real containers, three minutes, those whose names match FOCUS='an expression'
	cd testdata/jobset && JOBD_SPECS=$(CURDIR)/bin JOBD_FOCUS='$(FOCUS)' go test -count=1 -vet=off -timeout 1h -v -run '^TestSpecs$$' .

conformance-short: build test-deps ## some of them, in a few minutes if they have been built before
	testdata/conformance/run.sh bin --short

# jobctl is for other systems too. One is checked here, that which is least like this one, since from cold each takes minutes to compile;
# make release compiles all.
CLIENTS_CHECKED ?= windows/amd64
lint: ## gofmt, go vet and staticcheck, with the checks that staticcheck.conf chooses
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	@! grep -nE '^\s*go |\<sync\.|\.Go\(|t\.Parallel\(' $(SEQUENTIAL:%=%/*.go)
	go vet $(PACKAGES)
	cd packaging && go vet ./...
	@for client in $(CLIENTS_CHECKED); do \
		GOOS=$${client%/*} GOARCH=$${client#*/} go build ./cmd/jobctl ./cmd/internal/... || exit 1; \
		GOOS=$${client%/*} GOARCH=$${client#*/} go vet ./cmd/internal/overssh ./cmd/internal/progress || exit 1; \
	done
	$(TOOLS) go tool -modfile=testdata/lint/go.mod staticcheck $(PACKAGES)

# why.Find and bpftree.Equal are left: tests of several packages use them.
deadcode: ## functions that none of the programs reaches: about a minute, more than lint should take
	@go tool -modfile=testdata/lint/go.mod deadcode ./cmd/jobd ./cmd/jobd-shim ./cmd/jobctl | { ! grep -v '^runtime/bpftree/equal.go:\|^api/why/why.go:.* Find$$'; }

LIVES ?= 200
compare: ## our defaults and validation beside those of Kubernetes, on manifests that COMPAREFLAGS="-mutants N -seed N" change, LIVES=200 Jobs and CronJobs, and JobSets
	cd testdata/upstream && go vet ./... && go test -count=1 -v . $(COMPAREFLAGS) && go test -count=1 -vet=off ./controllers -lives $(LIVES)
	cd testdata/jobset && go vet . && go test -count=1 -vet=off .
	JOBD_FIXTURES=all go test -count=1 -run PodSecurityFixtures ./api/server

MOVING := testdata/screenshots/moving
screenshots: build ## the pictures of the documentation, in docs/images: a Job in the browser, in the terminal and as a report; with RECORD=1 a new session for the moving one
	testdata/screenshots/run.sh bin docs/images
	VIEWS=after testdata/screenshots/run.sh bin docs/images/views
	$(if $(RECORD),go run ./$(MOVING) -bin bin $(MOVING)/session.json)
	go run ./$(MOVING) $(MOVING)/session.json >docs/images/submit-and-watch.svg

generate: ## the OpenAPI models of the served types, PODFIELDS.md, the pages of flags and annotations; tests fail when one is stale
	go generate ./api/openapi
	go test -run PODFIELDS ./api/core -args -update
	go test -run Reference ./cmd/jobctl ./cmd/jobd -args -update

install: build ## binaries, systemd unit, manual pages, shell completion; without DESTDIR also the group jobd
	install -D -m 0755 -t $(DESTDIR)$(PREFIX)/bin bin/jobd bin/jobd-shim bin/jobctl
	install -d $(DESTDIR)/etc/systemd/system
	sed 's,@PREFIX@,$(PREFIX),g; s,@CONFIG@,/etc/jobd/jobd.yaml,g' packaging/jobd.service >$(DESTDIR)/etc/systemd/system/jobd.service
	sed 's,@PREFIX@,$(PREFIX),g' packaging/jobd-forward@.service >$(DESTDIR)/etc/systemd/system/jobd-forward@.service
	install -d $(DESTDIR)/etc/jobd
	test -e $(DESTDIR)/etc/jobd/jobd.yaml || bin/jobd config >$(DESTDIR)/etc/jobd/jobd.yaml
	install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d man/man1 man/man8)
	@for program in jobd jobctl; do \
		bin/$$program completion bash >$(DESTDIR)$(PREFIX)/share/bash-completion/completions/$$program && \
		bin/$$program completion zsh >$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_$$program && \
		bin/$$program completion fish >$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/$$program.fish || exit 1; \
	done
	bin/jobctl man $(DESTDIR)$(PREFIX)/share/man/man1
	bin/jobd man $(DESTDIR)$(PREFIX)/share/man/man8
	@test -n "$(DESTDIR)" || { \
		getent group jobd >/dev/null || ! command -v groupadd >/dev/null || groupadd --system jobd; \
		if [ -d /run/systemd/system ]; then echo "jobd: start it with: systemctl daemon-reload && systemctl enable --now jobd"; \
		else echo "jobd: there is no systemd here; start it with: jobd serve --config /etc/jobd/jobd.yaml"; fi; }

release: ## dist/: deb, rpm and tar.gz for each of ARCHS="amd64 arm64", jobctl for CLIENTS="darwin/arm64 windows/amd64 ...", bill of materials, checksums
	@packaging/release.sh '$(VERSION)' '$(LDFLAGS)'

clean:
	rm -rf bin dist .demo .node .packages .soak .tools .upgrade .vm
