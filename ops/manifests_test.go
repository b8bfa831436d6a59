// Package ops tests the files of this folder that other programs read. It is a separate module, so that the server
// does not depend on Kubernetes.
package ops

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	k8syaml "sigs.k8s.io/yaml"
)

// manifests holds the parsed manifests of Kubernetes.
type manifests struct {
	namespace corev1.Namespace
	services  []corev1.Service
	set       appsv1.StatefulSet
	budget    policyv1.PodDisruptionBudget
}

// decode reads a document as Kubernetes does with strict field validation: a name that is none is an error.
func (m *manifests) decode(text []byte) error {
	var head struct{ APIVersion, Kind string }
	if err := k8syaml.Unmarshal(text, &head); err != nil {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case "v1 Namespace":
		return k8syaml.UnmarshalStrict(text, &m.namespace)
	case "v1 Service":
		m.services = append(m.services, corev1.Service{})
		return k8syaml.UnmarshalStrict(text, &m.services[len(m.services)-1])
	case "apps/v1 StatefulSet":
		return k8syaml.UnmarshalStrict(text, &m.set)
	case "policy/v1 PodDisruptionBudget":
		return k8syaml.UnmarshalStrict(text, &m.budget)
	}
	return fmt.Errorf("nobody expects a %s of %s", head.Kind, head.APIVersion)
}

// kubernetes reads what kustomization.yaml lists.
func kubernetes(t *testing.T) *manifests {
	t.Helper()
	var list struct{ Resources []string }
	readYAML(t, "kubernetes/kustomization.yaml", &list)
	m := &manifests{}
	for _, name := range list.Resources {
		text, err := os.ReadFile(filepath.Join("kubernetes", name))
		if err != nil {
			t.Fatal(err)
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			if err := m.decode(document); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil || len(files) != len(list.Resources)+1 {
		t.Errorf("kustomization.yaml lists %q, and the folder has %q: %v", list.Resources, files, err)
	}
	return m
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// A misspelt field is no manifest: the test above would not see it otherwise.
func TestDecodeIsStrict(t *testing.T) {
	err := (&manifests{}).decode([]byte("apiVersion: v1\nkind: Service\nspec: {publishNotReadyAddress: true}\n"))
	if err == nil || !strings.Contains(err.Error(), "publishNotReadyAddress") {
		t.Errorf("a field that does not exist gives %v", err)
	}
}

// The manifests agree: each name, label and port that one refers to is defined by another.
func TestKubernetes(t *testing.T) {
	m := kubernetes(t)
	pod := m.set.Spec.Template
	node := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range node.Ports {
		ports[p.Name] = p.ContainerPort
	}
	apart := pod.Spec.Affinity.PodAntiAffinity
	var headless, clients *corev1.Service
	for i, s := range m.services {
		for _, p := range s.Spec.Ports {
			if ports[p.TargetPort.StrVal] == 0 {
				t.Errorf("service %s has port %s, which no container has", s.Name, p.TargetPort.StrVal)
			}
		}
		for label, value := range s.Spec.Selector {
			if pod.Labels[label] != value {
				t.Errorf("service %s selects %s=%s, the pods have %v", s.Name, label, value, pod.Labels)
			}
		}
		if s.Spec.ClusterIP == corev1.ClusterIPNone {
			headless = &m.services[i]
		} else {
			clients = &m.services[i]
		}
	}
	for what, ok := range map[string]bool{
		"headless service of the set, for nodes that are not ready too": headless != nil &&
			headless.Name == m.set.Spec.ServiceName && headless.Spec.PublishNotReadyAddresses,
		"service of clients, for nodes that are ready": clients != nil && !clients.Spec.PublishNotReadyAddresses,
		"budget of one pod": m.budget.Spec.MaxUnavailable.IntVal == 1 &&
			m.budget.Spec.Selector.String() == m.set.Spec.Selector.String(),
		"all pods at once":         m.set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement,
		"one machine, one node":    len(apart.RequiredDuringSchedulingIgnoredDuringExecution) == 1,
		"liveness by /livez":       probes(node.LivenessProbe, "/livez") && ports["http"] == 8379,
		"readiness by /readyz":     probes(node.ReadinessProbe, "/readyz"),
		"a number that is no root": pod.Spec.SecurityContext.RunAsUser != nil && *pod.Spec.SecurityContext.RunAsUser > 0,
	} {
		if !ok {
			t.Errorf("the manifests lack: %s", what)
		}
	}
}

func probes(p *corev1.Probe, path string) bool {
	return p != nil && p.HTTPGet != nil && p.HTTPGet.Path == path && p.HTTPGet.Port.StrVal == "http"
}

// podEnvironment returns the environment of a pod's container. As in Kubernetes, $(NAME) is replaced by the value of
// an earlier variable.
func podEnvironment(set *appsv1.StatefulSet, pod int) (env []string) {
	values := map[string]string{}
	for _, v := range set.Spec.Template.Spec.Containers[0].Env {
		value := v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			value = fmt.Sprintf("%s-%d", set.Name, pod)
		}
		value = regexp.MustCompile(`\$\((\w+)\)`).ReplaceAllStringFunc(value, func(ref string) string {
			if v, ok := values[ref[2:len(ref)-1]]; ok {
				return v
			}
			return ref
		})
		values[v.Name] = value
		env = append(env, v.Name+"="+value)
	}
	return env
}

// The list of founding nodes names each pod, at its address in the headless service.
func TestPodsFoundTheCluster(t *testing.T) {
	m := kubernetes(t)
	var want []string
	for i := range int(*m.set.Spec.Replicas) {
		name := fmt.Sprintf("%s-%d", m.set.Name, i)
		want = append(want, fmt.Sprintf("%s=%s.%s:16379", name, name, m.set.Spec.ServiceName))
	}
	for i := range want {
		env := podEnvironment(&m.set, i)
		name := fmt.Sprintf("%s-%d", m.set.Name, i)
		for _, line := range []string{
			"LOCKD_ID=" + name, "LOCKD_CLUSTER=" + strings.Join(want, ","),
			"LOCKD_ADVERTISE=" + name + "." + m.set.Spec.ServiceName + ":6379",
		} {
			if !slices.Contains(env, line) {
				t.Errorf("the environment of pod %d has no %s: %q", i, line, env)
			}
		}
	}
}

// compose holds the parts of the Compose file that the tests check.
type compose struct {
	Services map[string]struct {
		Environment map[string]string
		Ports       []string
		Volumes     []string
		Secrets     []string
		ReadOnly    bool `yaml:"read_only"`
	}
	Volumes map[string]any
	Secrets map[string]struct{ File string }
}

// Three nodes have separate volumes and the same secrets, and no port is open to other machines.
func TestCompose(t *testing.T) {
	var c compose
	readYAML(t, "docker/compose.yaml", &c)
	if len(c.Services) != 3 || len(c.Volumes) != 3 || len(c.Secrets) != 2 {
		t.Errorf("%d services, %d volumes, %d secrets", len(c.Services), len(c.Volumes), len(c.Secrets))
	}
	for name, s := range c.Services {
		if id := s.Environment["LOCKD_ID"]; id != name {
			t.Errorf("%s is node %s", name, id)
		}
		if !strings.Contains(","+s.Environment["LOCKD_CLUSTER"], ","+name+"="+name+":16379") {
			t.Errorf("%s is not in its list %s", name, s.Environment["LOCKD_CLUSTER"])
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is reached at %s", name, p)
			}
		}
		if len(s.Volumes) != 1 || s.Volumes[0] != name+":/data" || !s.ReadOnly {
			t.Errorf("%s has the volumes %v", name, s.Volumes)
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s asks for the secret %s", name, secret)
			}
		}
	}
}

// lockd knows each variable that the files here set, and takes their values.
func TestLockdKnowsTheSettings(t *testing.T) {
	lockd := filepath.Join(t.TempDir(), "lockd")
	build := exec.Command("go", "-C", "..", "build", "-o", lockd, "./cmd/lockd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	environments := map[string][]string{"image": {"LOCKD_DIR=/data", "LOCKD_LISTEN=:6379", "LOCKD_PEER_LISTEN=:16379"}}
	m := kubernetes(t)
	environments["Kubernetes"] = podEnvironment(&m.set, 0)
	var c compose
	readYAML(t, "docker/compose.yaml", &c)
	for name, value := range c.Services["n1"].Environment {
		environments["Compose"] = append(environments["Compose"], name+"="+value)
	}
	text, err := os.ReadFile("systemd/lockd.env.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^#?(LOCKD_\w+=\S+)$`).FindAllStringSubmatch(string(text), -1) {
		environments["systemd"] = append(environments["systemd"], m[1])
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 44)), 0o600); err != nil {
		t.Fatal(err)
	}
	for where, env := range environments {
		if where != "image" && len(env) < 8 {
			t.Errorf("%s sets only %q", where, env)
		}
		// Files do not exist here, so they are replaced. An invalid port ends the process after everything that is
		// checked earlier.
		for i, v := range env {
			name, value, _ := strings.Cut(v, "=")
			switch {
			case strings.HasPrefix(name, "LOCKD_TLS_"):
				env[i] = "LOCKD_TLS_LISTEN="
			case strings.HasSuffix(name, "_FILE"):
				env[i] = name + "=" + secret
			case name == "LOCKD_PEER_LISTEN":
				env[i] = name + "=" + value + "0000"
			}
		}
		refused := exec.Command(lockd, "serve", "--dir", t.TempDir())
		refused.Env = env
		out, err := refused.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 || bytes.Contains(out, []byte("environment variable")) ||
			!bytes.Contains(out, []byte("163790000")) {
			t.Errorf("%s: %v: %s", where, err, out)
		}
		known := exec.Command(lockd, "version")
		known.Env = env
		var warnings bytes.Buffer
		known.Stdout, known.Stderr = io.Discard, &warnings
		if err := known.Run(); err != nil || warnings.Len() > 0 {
			t.Errorf("%s: %v: %s", where, err, &warnings)
		}
	}
}
