"""Where the API server is and how to authenticate to it: kubeconfig, service account, exec plugins, TLS."""
