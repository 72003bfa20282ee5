{{- define "common.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .root.Release.Name }}-{{ .name }}-{{ .root.Release.Revision }}
spec:
  ttlSecondsAfterFinished: 3600
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: {{ .name }}
        image: {{ .job.image }}
        {{- with .job.command }}
        command: {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
