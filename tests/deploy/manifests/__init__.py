"""Checks of the manifests in deploy/kubernetes against each other and against the sources."""
