# A Job and what it needs, by the provider. v1.13.4 sets ttlSecondsAfterFinished to 0 where it is left out, and waits for the token of
# a ServiceAccount that no cluster has made since 2022.
terraform {
  required_providers {
    kubernetes = {
      source = "hashicorp/kubernetes"
    }
  }
}

variable "namespace" {}

variable "greeting" {
  default = "hello"
}

resource "kubernetes_config_map" "words" {
  metadata {
    name      = "words"
    namespace = var.namespace
  }
  data = { greeting = var.greeting }
}

resource "kubernetes_secret" "name" {
  metadata {
    name      = "name"
    namespace = var.namespace
  }
  data = { name = "jobd" }
}

resource "kubernetes_persistent_volume_claim" "data" {
  metadata {
    name      = "data"
    namespace = var.namespace
  }
  wait_until_bound = false
  spec {
    access_modes = ["ReadWriteOnce"]
    resources {
      requests = { storage = "10Mi" }
    }
  }
}

resource "kubernetes_role" "reads" {
  metadata {
    name      = "reads"
    namespace = var.namespace
  }
  rule {
    api_groups = [""]
    resources  = ["pods"]
    verbs      = ["get", "list"]
  }
}

resource "kubernetes_role_binding" "reads" {
  metadata {
    name      = "reads"
    namespace = var.namespace
  }
  role_ref {
    api_group = "rbac.authorization.k8s.io"
    kind      = "Role"
    name      = kubernetes_role.reads.metadata[0].name
  }
  subject {
    kind      = "ServiceAccount"
    name      = "default"
    namespace = var.namespace
  }
}

resource "kubernetes_service" "greeting" {
  metadata {
    name      = "greeting"
    namespace = var.namespace
  }
  spec {
    selector = { "job-name" = "greeting" }
    port {
      port = 80
    }
  }
}

resource "kubernetes_job" "greeting" {
  metadata {
    name      = "greeting"
    namespace = var.namespace
  }
  spec {
    backoff_limit              = 1
    ttl_seconds_after_finished = 3600
    template {
      metadata {}
      spec {
        restart_policy = "Never"
        container {
          name    = "main"
          image   = "busybox:1.36"
          command = ["sh", "-c", "echo $GREETING, $NAME | tee /data/out"]
          env {
            name  = "GREETING"
            value = var.greeting
          }
          env {
            name = "NAME"
            value_from {
              secret_key_ref {
                name = kubernetes_secret.name.metadata[0].name
                key  = "name"
              }
            }
          }
          volume_mount {
            name       = "data"
            mount_path = "/data"
          }
        }
        volume {
          name = "data"
          persistent_volume_claim {
            claim_name = kubernetes_persistent_volume_claim.data.metadata[0].name
          }
        }
      }
    }
  }
  wait_for_completion = true
  timeouts {
    create = "4m"
    update = "4m"
  }
}
