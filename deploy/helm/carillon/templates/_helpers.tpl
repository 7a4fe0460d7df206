{{/* Names */}}
{{- define "carillon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "carillon.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "carillon.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "carillon.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels; of a component: (dict "ctx" . "component" "server") */}}
{{- define "carillon.selector" -}}
app.kubernetes.io/name: {{ include "carillon.name" .ctx }}
app.kubernetes.io/instance: {{ .ctx.Release.Name }}
{{- with get . "component" }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "carillon.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .ctx.Chart.Name .ctx.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "carillon.selector" . }}
app.kubernetes.io/version: {{ .ctx.Values.image.tag | default .ctx.Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .ctx.Release.Service }}
app.kubernetes.io/part-of: carillon
{{- end -}}

{{- define "carillon.image" -}}
{{- $repository := required "image.repository: want where your image is, such as registry.example/carillon; the Dockerfile of the repository makes it" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The name of the Secret of an entry: (dict "ctx" . "entry" "database") */}}
{{- define "carillon.secretName" -}}
{{- $entry := get .ctx.Values.secrets .entry -}}
{{- required (printf "existingSecret: want the name of a Secret that holds %q (%s); or set secrets.%s.existingSecret" $entry.key .entry .entry) (default .ctx.Values.existingSecret $entry.existingSecret) -}}
{{- end -}}

{{/* A variable from a Secret: (dict "ctx" . "entry" "database" "name" "CARILLON_DATABASE" "optional" false) */}}
{{- define "carillon.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ include "carillon.secretName" . }}
      key: {{ (get .ctx.Values.secrets .entry).key }}
      {{- if .optional }}
      optional: true
      {{- end }}
{{- end -}}

{{/* A value of a settings file */}}
{{- define "carillon.tomlValue" -}}
{{- if kindIs "string" . -}}{{ toJson . }}
{{- else if kindIs "bool" . -}}{{ . }}
{{- else if kindIs "slice" . -}}[{{ range $i, $x := . }}{{ if $i }}, {{ end }}{{ toJson (toString $x) }}{{ end }}]
{{- else if and (kindIs "float64" .) (ne (floor .) .) -}}{{ . }}
{{- else -}}{{ int64 . }}
{{- end -}}
{{- end -}}

{{/* A table of a settings file and those below it: (dict "name" "" "table" .Values.config) */}}
{{- define "carillon.toml" -}}
{{- $below := list -}}
{{- if .name }}
[{{ .name }}]
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- $below = append $below $key -}}
{{- else if not (kindIs "invalid" $value) }}
{{ $key }} = {{ include "carillon.tomlValue" $value }}
{{- end }}
{{- end }}
{{- $top := . -}}
{{- range $below }}
{{ include "carillon.toml" (dict "name" (ternary . (printf "%s.%s" $top.name .) (empty $top.name)) "table" (get $top.table .)) }}
{{- end }}
{{- end -}}

{{- define "carillon.scheme" -}}{{ ternary "https" "http" (not (empty .Values.tls.existingSecret)) }}{{- end -}}

{{- define "carillon.servers" -}}
{{- if .Values.worker.servers -}}
{{- join "," .Values.worker.servers -}}
{{- else -}}
{{- printf "%s://%s.%s.svc:%d" (include "carillon.scheme" .) (include "carillon.fullname" .) .Release.Namespace (int .Values.server.service.port) -}}
{{- end -}}
{{- end -}}

{{/* The series of this release, as a selector of PromQL */}}
{{- define "carillon.series" -}}
{{- printf "{namespace=%q,job=%q,state=%q}" .ctx.Release.Namespace .ctx.Release.Name .state -}}
{{- end -}}

{{/* How many servers may be away while they change: as many as is said, and never all of them */}}
{{- define "carillon.maxUnavailable" -}}
{{- $s := .Values.server -}}
{{- $n := $s.strategy.maxUnavailable -}}
{{- if kindIs "string" $n -}}
{{- $n = div (mul (int (trimSuffix "%" $n)) (int $s.replicas)) 100 -}}
{{- end -}}
{{- $n = min (int $n) (sub (int $s.replicas) 1) -}}
{{- if and (eq (int $n) 0) (has (toString $s.strategy.maxSurge) (list "0" "0%")) -}}
{{- fail (printf "server.strategy.maxSurge = %v: want 1 or more, as maxUnavailable (%v of %d servers, one of which must stay) comes to 0" $s.strategy.maxSurge $s.strategy.maxUnavailable (int $s.replicas)) -}}
{{- end -}}
{{- $n -}}
{{- end -}}

{{/* What a stop may take: the drain, then the rest */}}
{{- define "carillon.graceSeconds" -}}
{{- $drain := 30 -}}
{{- with get .Values.config "workers" }}{{ with get . "drain_timeout_seconds" }}{{ $drain = int . }}{{ end }}{{ end -}}
{{- add $drain 45 (int .Values.server.preStopSeconds) -}}
{{- end -}}

{{/* What the pods of a component have in common: (dict "ctx" . "component" "server") */}}
{{- define "carillon.podBasics" -}}
{{- $c := get .ctx.Values .component -}}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "carillon.graceSeconds" .ctx }}
{{- with .ctx.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
serviceAccountName: {{ include "carillon.serviceAccountName" .ctx }}
securityContext:
  {{- toYaml .ctx.Values.podSecurityContext | nindent 2 }}
{{- with $c.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $c.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $c.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $c.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
{{- if $c.topologySpreadConstraints }}
  {{- toYaml $c.topologySpreadConstraints | nindent 2 }}
{{- else }}
{{- $selector := include "carillon.selector" . }}
{{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- $selector | nindent 8 }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "carillon.podAnnotations" -}}
checksum/config: {{ include "carillon.toml" (dict "name" "" "table" .ctx.Values.config) | sha256sum }}
{{- with (get .ctx.Values .component).podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Probes: (dict "scheme" "http" "startSeconds" 120), the latter how long a start may take */}}
{{- define "carillon.probes" -}}
{{- $scheme := upper .scheme -}}
startupProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 2
  failureThreshold: {{ div (add (int .startSeconds) 1) 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{/* What cannot be said by the schema */}}
{{- define "carillon.check" -}}
{{- if and (not .Values.server.enabled) (not .Values.worker.enabled) -}}
{{- fail "server.enabled and worker.enabled: want at least one of them true" -}}
{{- end -}}
{{- if and .Values.worker.enabled (not .Values.server.enabled) (empty .Values.worker.servers) -}}
{{- fail "worker.servers: want the addresses of servers, such as https://carillon.example, where server.enabled is false" -}}
{{- end -}}
{{- $a := .Values.worker.autoscaling -}}
{{- if gt (int $a.minReplicas) (int $a.maxReplicas) -}}
{{- fail (printf "worker.autoscaling.minReplicas = %d: want at most maxReplicas, which is %d" (int $a.minReplicas) (int $a.maxReplicas)) -}}
{{- end -}}
{{- if and (eq $a.kind "hpa") (lt (int $a.minReplicas) 1) -}}
{{- fail "worker.autoscaling.minReplicas = 0: want 1 or more with hpa; keda can begin with none" -}}
{{- end -}}
{{- $unqueued := "Prometheus knows no queues, so that workers of some would be scaled by what is in all" -}}
{{- if and .Values.worker.queues (eq $a.kind "hpa") (eq $a.hpa.metric "carillon_queue_depth") -}}
{{- fail (printf "worker.autoscaling.hpa.metric = carillon_queue_depth, beside worker.queues: %s; want kind keda with keda.source api, or a metric of your own" $unqueued) -}}
{{- end -}}
{{- if and (eq $a.kind "keda") (eq $a.keda.source "prometheus") (empty $a.keda.prometheus.query) -}}
{{- if .Values.worker.queues -}}
{{- fail (printf "worker.autoscaling.keda.source = prometheus, beside worker.queues: %s; want keda.source api, or keda.prometheus.query" $unqueued) -}}
{{- end -}}
{{- if not .Values.server.enabled -}}
{{- fail "worker.autoscaling.keda.prometheus.query: want the query of the servers' release, where server.enabled is false: max(sum by (instance) (carillon_queue_depth{namespace=\"…\",job=\"…\"}))" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "metrics.serviceMonitor.enabled: want metrics.enabled, too" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (empty .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: want at least one name, such as carillon.example" -}}
{{- end -}}
{{- end -}}
