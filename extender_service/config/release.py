"""The release of Kubernetes that this version of the service follows."""

KUBERNETES_VERSION = "v1.31.1"
