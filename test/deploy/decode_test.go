package deploy_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// The parts of KEDA's types that the chart may use (keda.sh/v1alpha1); its module would bring in half of the clouds.
type (
	scaledObject struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			ScaleTargetRef struct {
				APIVersion string `json:"apiVersion"`
				Kind       string `json:"kind"`
				Name       string `json:"name"`
			} `json:"scaleTargetRef"`
			PollingInterval int32 `json:"pollingInterval"`
			CooldownPeriod  int32 `json:"cooldownPeriod"`
			MinReplicaCount int32 `json:"minReplicaCount"`
			MaxReplicaCount int32 `json:"maxReplicaCount"`
			Advanced        struct {
				HPA struct {
					Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior"`
				} `json:"horizontalPodAutoscalerConfig"`
			} `json:"advanced"`
			Triggers []struct {
				Type           string            `json:"type"`
				Metadata       map[string]string `json:"metadata"`
				Authentication *struct {
					Name string `json:"name"`
				} `json:"authenticationRef"`
			} `json:"triggers"`
			Fallback *struct {
				FailureThreshold int32 `json:"failureThreshold"`
				Replicas         int32 `json:"replicas"`
			} `json:"fallback"`
		} `json:"spec"`
	}
	triggerAuthentication struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
		Spec              struct {
			SecretTargetRef []struct {
				Parameter string `json:"parameter"`
				Name      string `json:"name"`
				Key       string `json:"key"`
			} `json:"secretTargetRef"`
		} `json:"spec"`
	}
)

// rendered is a rendered chart.
type rendered struct {
	names       []string // kind and name
	objects     []metav1.ObjectMeta
	deployments []appsv1.Deployment
	jobs        []batchv1.Job
	services    []corev1.Service
	budgets     []policyv1.PodDisruptionBudget
	policies    []networkingv1.NetworkPolicy
	scaled      []scaledObject
	scalers     []autoscalingv2.HorizontalPodAutoscaler
	logins      []triggerAuthentication
	monitors    []monitoring.ServiceMonitor
	rules       []monitoring.PrometheusRule
	config      corev1.ConfigMap
}

// decode reads everything into the types of those who will; a field that they do not know is an error.
func decode(t *testing.T, files map[string]string) (out rendered) {
	t.Helper()
	for name, text := range files {
		if strings.HasSuffix(name, ".txt") {
			if strings.Contains(text, "<no value>") || !strings.Contains(text, "Carillon") {
				t.Errorf("%s: %s", name, text)
			}
			continue
		}
		for doc := range strings.SplitSeq(text, "\n---") {
			doc = strings.TrimPrefix(doc, "---")
			var head struct {
				metav1.TypeMeta   `json:",inline"`
				metav1.ObjectMeta `json:"metadata"`
			}
			if err := yaml.Unmarshal([]byte(doc), &head); err != nil {
				t.Fatalf("%s: %v\n%s", name, err, doc)
			}
			if head.Kind == "" {
				if strings.TrimSpace(doc) != "" && !strings.HasPrefix(strings.TrimSpace(doc), "#") {
					t.Errorf("%s: this has no kind:\n%s", name, doc)
				}
				continue
			}
			out.names = append(out.names, head.Kind+" "+head.Name)
			out.objects = append(out.objects, head.ObjectMeta)
			switch head.APIVersion + " " + head.Kind {
			case "apps/v1 Deployment":
				out.deployments = append(out.deployments, strict[appsv1.Deployment](t, doc))
			case "batch/v1 Job":
				out.jobs = append(out.jobs, strict[batchv1.Job](t, doc))
			case "v1 Service":
				out.services = append(out.services, strict[corev1.Service](t, doc))
			case "v1 ConfigMap":
				if c := strict[corev1.ConfigMap](t, doc); c.Data["carillon.toml"] != "" {
					out.config = c
				}
			case "v1 ServiceAccount":
				strict[corev1.ServiceAccount](t, doc)
			case "policy/v1 PodDisruptionBudget":
				out.budgets = append(out.budgets, strict[policyv1.PodDisruptionBudget](t, doc))
			case "networking.k8s.io/v1 NetworkPolicy":
				out.policies = append(out.policies, strict[networkingv1.NetworkPolicy](t, doc))
			case "networking.k8s.io/v1 Ingress":
				strict[networkingv1.Ingress](t, doc)
			case "autoscaling/v2 HorizontalPodAutoscaler":
				out.scalers = append(out.scalers, strict[autoscalingv2.HorizontalPodAutoscaler](t, doc))
			case "monitoring.coreos.com/v1 ServiceMonitor":
				out.monitors = append(out.monitors, strict[monitoring.ServiceMonitor](t, doc))
			case "monitoring.coreos.com/v1 PrometheusRule":
				out.rules = append(out.rules, strict[monitoring.PrometheusRule](t, doc))
			case "keda.sh/v1alpha1 ScaledObject":
				out.scaled = append(out.scaled, strict[scaledObject](t, doc))
			case "keda.sh/v1alpha1 TriggerAuthentication":
				out.logins = append(out.logins, strict[triggerAuthentication](t, doc))
			default:
				t.Errorf("%s: nobody checks %s %s", name, head.APIVersion, head.Kind)
			}
		}
	}
	return out
}

func strict[T any](t *testing.T, doc string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(doc), &out); err != nil {
		t.Errorf("%v\n%s", err, doc)
	}
	return out
}

// check says what of it a cluster would refuse, or should not have to run.
func (r rendered) check(t *testing.T) {
	t.Helper()
	if sorted := slices.Sorted(slices.Values(r.names)); len(slices.Compact(sorted)) != len(r.names) {
		t.Errorf("some have one name: %q", r.names)
	}
	for i, o := range r.objects {
		if bad := validation.IsDNS1123Label(o.Name); len(bad) > 0 {
			t.Errorf("%s: %v", r.names[i], bad)
		}
		if o.Namespace != "jobs" {
			t.Errorf("%s is in the namespace %q", r.names[i], o.Namespace)
		}
		for k, v := range o.Labels {
			if bad := slices.Concat(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)); len(bad) > 0 {
				t.Errorf("%s: the label %s=%s: %v", r.names[i], k, v, bad)
			}
		}
	}
	for _, d := range r.deployments {
		for k, v := range d.Spec.Selector.MatchLabels {
			if d.Spec.Template.Labels[k] != v {
				t.Errorf("%s does not find its own pods: %s=%s", d.Name, k, v)
			}
		}
		if d.Spec.Template.Annotations["checksum/config"] == "" {
			t.Errorf("%s does not notice new settings", d.Name)
		}
		c := d.Spec.Template.Spec.Containers[0]
		if c.ReadinessProbe == nil || c.LivenessProbe == nil || c.StartupProbe == nil {
			t.Errorf("%s is not probed", d.Name)
		}
		if len(d.Spec.Template.Spec.TopologySpreadConstraints) == 0 {
			t.Errorf("%s may be all on one node", d.Name)
		}
		pod(t, d.Name, d.Spec.Template.Spec)
	}
	for _, j := range r.jobs {
		if j.Annotations["helm.sh/hook"] != "pre-install,pre-upgrade" || j.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%s is no hook that runs once: %v", j.Name, j.Annotations)
		}
		pod(t, j.Name, j.Spec.Template.Spec)
		for _, v := range j.Spec.Template.Spec.Volumes {
			if v.ConfigMap != nil {
				t.Errorf("%s needs %s, which is made after it", j.Name, v.ConfigMap.Name)
			}
		}
	}
	for _, s := range r.services {
		found := false
		for _, d := range r.deployments {
			found = found || covers(s.Spec.Selector, d.Spec.Template.Labels) && len(d.Spec.Template.Spec.Containers[0].Ports) > 0
		}
		if !found {
			t.Errorf("%s finds no pods: %v", s.Name, s.Spec.Selector)
		}
	}
	for _, b := range r.budgets {
		if !slices.ContainsFunc(r.deployments, func(d appsv1.Deployment) bool { return covers(b.Spec.Selector.MatchLabels, d.Spec.Template.Labels) }) {
			t.Errorf("%s is about no pods", b.Name)
		}
	}
	for _, o := range r.scaled {
		if !slices.Contains(r.names, "Deployment "+o.Spec.ScaleTargetRef.Name) || len(o.Spec.Triggers) == 0 {
			t.Errorf("%s scales nothing: %+v", o.Name, o.Spec)
		}
	}
	for _, p := range r.rules {
		for _, g := range p.Spec.Groups {
			for _, rule := range g.Rules {
				if rule.Alert == "" && rule.Record == "" || rule.Expr.String() == "" {
					t.Errorf("%s: %+v", g.Name, rule)
				}
			}
		}
		if len(p.Spec.Groups) == 0 {
			t.Errorf("%s has no alerts", p.Name)
		}
	}
}

func covers(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// pod says what is wrong with a pod: by the profile "restricted" of Kubernetes, and beyond.
func pod(t *testing.T, name string, p corev1.PodSpec) {
	t.Helper()
	if p.SecurityContext == nil || p.SecurityContext.RunAsNonRoot == nil || !*p.SecurityContext.RunAsNonRoot || p.SecurityContext.SeccompProfile == nil || p.SecurityContext.SeccompProfile.Type != "RuntimeDefault" {
		t.Errorf("%s may be root, or call anything of the kernel", name)
	}
	if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken || p.HostNetwork || p.HostPID || p.HostIPC {
		t.Errorf("%s has a token of the cluster, or what is the host's", name)
	}
	volumes := map[string]bool{}
	for _, v := range p.Volumes {
		volumes[v.Name] = true
		if v.HostPath != nil {
			t.Errorf("%s has a folder of the host", name)
		}
	}
	for _, c := range p.Containers {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") || s.Privileged != nil {
			t.Errorf("%s: %+v", name, s)
		}
		if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s may take any memory", name)
		}
		for _, m := range c.VolumeMounts {
			if !volumes[m.Name] {
				t.Errorf("%s mounts %s, which is not there", name, m.Name)
			}
		}
		set := map[string]bool{}
		for _, e := range c.Env {
			if set[e.Name] {
				t.Errorf("%s: %s is set twice", name, e.Name)
			}
			set[e.Name] = true
			secret := strings.Contains(e.Name, "KEY") && e.Name != "CARILLON_TLS_KEY" || strings.Contains(e.Name, "TOKEN") || e.Name == "CARILLON_DATABASE" || strings.Contains(e.Name, "SECRET")
			if secret && (e.Value != "" || e.ValueFrom == nil || e.ValueFrom.SecretKeyRef == nil || e.ValueFrom.SecretKeyRef.Name == "") {
				t.Errorf("%s: %s does not come from a Secret", name, e.Name)
			}
		}
		if bad := validation.IsDNS1123Label(c.Name); len(bad) > 0 || c.Image == "" {
			t.Errorf("%s: %v", name, bad)
		}
	}
}

// carillon builds the product and says how to run it.
func carillon(t *testing.T) func(...string) (string, error) {
	t.Helper()
	path := t.TempDir() + "/carillon"
	c := exec.Command("go", "build", "-buildvcs=false", "-o", path, "./cmd/carillon")
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func(args ...string) (string, error) {
		out, err := exec.Command(path, args...).CombinedOutput()
		return string(out), err
	}
}
