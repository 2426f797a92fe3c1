"""What the scheduler knows of the cluster, as columns of node and pod facts."""
