package layout

import "path/filepath"

// Root is the directory for what must survive a reboot: the database, images, logs. `jobd clean` leaves all of it, and
// `jobd clean --purge` removes all of it.
type Root string

// inRoot is all that is jobd's in a root. A copy of the database is not.
var inRoot = []entry{
	{pattern: "set-aside.json"},
	{pattern: "set-aside.json~new"}, // being written
	{pattern: ".kubeconfig-*"},      // left by an older jobd
	{pattern: "containerd", mounts: true},
	{pattern: "docker"},
	{pattern: "hosts"},
	{pattern: "jobd.db"},
	{pattern: "jobd.db.compact"}, // being written
	{pattern: "jobd.db.lock"},
	{pattern: "jobd.db.new"}, // being written
	{pattern: "kubeconfig"},
	{pattern: "kubeconfig~new"}, // being written
	{pattern: "lock"},
	{pattern: "logs"},
	{pattern: "oci-runtimes.json*"},
	{pattern: "pods", mounts: true},
	{pattern: "run"},
	{pattern: "seccomp"},
	{pattern: "tls"},
	{pattern: "volumes"},
}

// Owns reports whether something directly in the root is jobd's, by its name.
func (r Root) Owns(name string) bool { return own(inRoot, name) }

// Mounts returns the directories in which something may be mounted.
func (r Root) Mounts() []string { return mounts(string(r), inRoot) }

// Lock is held by the one process that works on the root: the daemon, or jobd clean or db.
func (r Root) Lock() string { return r.join("lock") }

// Database is the store's file, which has others beside it that begin with its name.
func (r Root) Database() string { return r.join("jobd.db") }

// SetAside has the objects that the control loop leaves alone, since it hung on them.
func (r Root) SetAside() string { return r.join("set-aside.json") }

// TLS is where the API server keeps the keys and certificates of itself and its clients.
func (r Root) TLS() string { return r.join("tls") }

// ServiceAccountKey signs the tokens of ServiceAccounts.
func (r Root) ServiceAccountKey() string { return filepath.Join(r.TLS(), "service-account.key") }

// Kubeconfig is the administrator's, written anew at each start with --listen.
func (r Root) Kubeconfig() string { return r.join("kubeconfig") }

// Containerd is the embedded containerd's: images, snapshots, and the directories that containers have as their own.
func (r Root) Containerd() string { return r.join("containerd") }

// Pods has the volumes of each pod that are on the disk, and its files from the host, by its UID.
func (r Root) Pods() string { return r.join("pods") }

// Volumes has the volumes that outlive pods, each by the name of its PersistentVolume.
func (r Root) Volumes() string { return r.join("volumes") }

// Logs has those of containers, and those that are kept for Jobs.
func (r Root) Logs() string { return r.join("logs") }

// OCIRuntimes keeps which OCI runtimes were found to work.
func (r Root) OCIRuntimes() string { return r.join("oci-runtimes.json") }

// DockerConfig, RegistryHosts and Seccomp are the administrator's; jobd only reads them: credentials of registries,
// their mirrors and certificates, and the profiles that pods name as Localhost.
func (r Root) DockerConfig() string { return filepath.Join(r.join("docker"), "config.json") }

// RegistryHosts has REGISTRY/hosts.toml.
func (r Root) RegistryHosts() string { return r.join("hosts") }

// Seccomp has the profiles.
func (r Root) Seccomp() string { return r.join("seccomp") }

// Run is the file that says that this is a root of `jobd run --root`, which keeps images and no database.
func (r Root) Run() string { return r.join("run") }

// OfOneRun returns what a root of `jobd run` has for one run alone.
func (r Root) OfOneRun() []string {
	return []string{
		r.Database(), r.Database() + ".lock", r.Database() + ".new", r.Database() + ".compact", r.Logs(), r.Pods(), r.TLS(),
		r.Kubeconfig(), r.Volumes(), r.SetAside(),
	}
}

func (r Root) join(name string) string { return filepath.Join(string(r), name) }
