# A Job by OpenTofu. Its state is a Secret of jobd, and its lock a Lease; KUBE_CONFIG_PATH and KUBE_NAMESPACE say where.
terraform {
  backend "kubernetes" {
    secret_suffix = "greeting"
  }
}

variable "greeting" {
  default = "hello"
}

resource "terraform_data" "job" {
  triggers_replace = [var.greeting]

  provisioner "local-exec" {
    environment = { GREETING = var.greeting }
    command     = <<-EOT
      kubectl --namespace "$NAMESPACE" create job greeting --image busybox:1.36 -- echo "$GREETING"
      kubectl --namespace "$NAMESPACE" wait --for=condition=complete job/greeting --timeout=4m
    EOT
  }

  provisioner "local-exec" {
    when    = destroy
    command = "kubectl --namespace \"$NAMESPACE\" delete job greeting --cascade=foreground"
  }
}
